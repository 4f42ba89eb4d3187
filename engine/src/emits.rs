//! The output of one call of a node. It leaves the node after the call has returned, in the order
//! of emission.

use std::{fmt, sync::Arc};

use smallvec::SmallVec;

use crate::{
    packet::{Packet, Payload},
    port::{In, Out, OutSide, PortType},
    timestamp::Timestamp,
};

/// One output of a call. `output` is the position among the node's outputs.
#[derive(Debug)]
pub(crate) enum Emission {
    Packet { output: u16, packet: Packet },
    Bound { output: u16, at: Timestamp },
    AtLeast { output: u16, at: Timestamp },
    Close { output: u16 },
    Side { output: u16, packet: Packet },
    Pause { input: u16, paused: bool },
}

impl Emission {
    /// Returns the output stream of the emission; `None` for side packets and pauses.
    pub(crate) fn stream(&self) -> Option<u16> {
        match self {
            Self::Packet { output, .. }
            | Self::Bound { output, .. }
            | Self::AtLeast { output, .. }
            | Self::Close { output } => Some(*output),
            Self::Side { .. } | Self::Pause { .. } => None,
        }
    }
}

/// Describes a pending call's wait.
pub(crate) type Description = Box<dyn Fn() -> String + Send>;

/// A pending call of an async node, as seen by its future.
pub(crate) trait AsyncCall: fmt::Debug + Send + Sync {
    /// Replaces the description of the call's wait.
    fn waits_for(&self, what: Description);
}

/// Collects the outputs of one call.
#[derive(Debug)]
pub struct Emits {
    time: Timestamp,
    pub(crate) list: Vec<Emission>,
    /// Number of holds that the call made.
    pub(crate) holds: u32,
    /// Set once `list` contains a bound.
    bounds: bool,
    pub(crate) panicked: bool,
    /// The call of an async node; `None` for other nodes.
    pub(crate) call: Option<Arc<dyn AsyncCall>>,
}

impl Default for Emits {
    fn default() -> Self {
        Self {
            time: Timestamp::UNSET,
            list: Vec::new(),
            holds: 0,
            bounds: false,
            panicked: false,
            call: None,
        }
    }
}

impl Emits {
    /// Starts a call whose outputs without an explicit timestamp get `time`.
    #[inline]
    pub(crate) fn start(&mut self, time: Timestamp) {
        self.time = time;
        self.list.clear();
        self.holds = 0;
        self.bounds = false;
        self.panicked = false;
    }

    /// Drops bounds that later emissions on the same output make redundant: observers see a call as
    /// one step.
    pub(crate) fn merge_bounds(&mut self) {
        if !std::mem::take(&mut self.bounds) || self.list.len() < 2 {
            return;
        }
        // For each output, the largest timestamp that a later emission settles.
        let mut covered: SmallVec<[(u16, Timestamp); 4]> = SmallVec::new();
        self.list.reverse();
        self.list.retain(|emission| {
            let (output, at, is_bound) = match emission {
                Emission::Packet { output, packet } => (*output, packet.time, false),
                Emission::Bound { output, at } | Emission::AtLeast { output, at } => {
                    (*output, *at, true)
                }
                Emission::Close { output } => (*output, Timestamp::DONE, false),
                Emission::Side { .. } | Emission::Pause { .. } => return true,
            };
            match covered.iter_mut().find(|(known, _)| *known == output) {
                Some((_, later)) if is_bound && at <= *later => return false,
                Some((_, later)) => *later = at.max(*later),
                None => covered.push((output, at)),
            }
            true
        });
        self.list.reverse();
    }

    /// Returns the timestamp that [`Self::emit`] uses: that of the input set. For an event and in
    /// `close`, it is the first timestamp that is free on all outputs of the node.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Emits a value at [`Self::time`].
    pub fn emit<T: Payload>(&mut self, port: Out<T>, value: T) {
        self.emit_at(port, self.time, value);
    }

    /// Emits a value at the given timestamp.
    pub fn emit_at<T: Payload>(&mut self, port: Out<T>, time: impl Into<Timestamp>, value: T) {
        if let Some(output) = output(port) {
            let packet = Packet::new(time, value);
            self.list.push(Emission::Packet { output, packet });
        }
    }

    /// Emits a whole packet, sharing its value.
    pub fn emit_packet(&mut self, port: Out<dyn Payload>, packet: Packet) {
        self.pass(port, packet);
    }

    /// Emits a packet whose type the caller has checked.
    pub(crate) fn pass<T: ?Sized + PortType>(&mut self, port: Out<T>, packet: Packet) {
        if let Some(output) = output(port) {
            self.list.push(Emission::Packet { output, packet });
        }
    }

    /// Promises that the output emits nothing before `at` any more.
    pub fn bound<T: ?Sized + PortType>(&mut self, port: Out<T>, at: Timestamp) {
        if let Some(output) = output(port) {
            self.bounds = true;
            self.list.push(Emission::Bound { output, at });
        }
    }

    /// Moves the bound of an output like [`Self::bound`], but does nothing if the bound is already
    /// later.
    pub fn bound_at_least<T: ?Sized + PortType>(&mut self, port: Out<T>, at: Timestamp) {
        if let Some(output) = output(port) {
            self.bounds = true;
            self.list.push(Emission::AtLeast { output, at });
        }
    }

    /// Closes an output. Later emissions on it are errors.
    pub fn close<T: ?Sized + PortType>(&mut self, port: Out<T>) {
        if let Some(output) = output(port) {
            self.list.push(Emission::Close { output });
        }
    }

    /// Describes the current wait of an async node's call, in words that can follow "waits for".
    /// `what` is called when somebody looks at the session, and must not block. Other nodes
    /// implement [`Calculator::waits_for`](crate::Calculator::waits_for) instead.
    pub fn waits_for(&mut self, what: impl Fn() -> String + Send + 'static) {
        if let Some(call) = &self.call {
            call.waits_for(Box::new(what));
        }
    }

    /// Stops taking packets of an input until it is [resumed](Self::resume). Packets wait in its
    /// queue; their producer waits once the queue is full. Meanwhile the node is neither called for
    /// these packets nor closed.
    pub fn pause<T: ?Sized + PortType>(&mut self, port: In<T>) {
        self.set_paused(port, true);
    }

    /// Takes packets of an input again after [`Self::pause`].
    pub fn resume<T: ?Sized + PortType>(&mut self, port: In<T>) {
        self.set_paused(port, false);
    }

    fn set_paused<T: ?Sized + PortType>(&mut self, port: In<T>, paused: bool) {
        if let Some(input) = port.index() {
            let input = input as u16;
            self.list.push(Emission::Pause { input, paused });
        }
    }

    /// Sets an output side packet. Each can be set once.
    pub fn side<T: Payload>(&mut self, port: OutSide<T>, value: T) {
        if let Some(output) = port.index() {
            let (output, packet) = (output as u16, Packet::side(value));
            self.list.push(Emission::Side { output, packet });
        }
    }

    /// Sets an output side packet to a value that is shared with another packet.
    pub fn side_packet(&mut self, port: OutSide<dyn Payload>, packet: Packet) {
        if let Some(output) = port.index() {
            let output = output as u16;
            self.list.push(Emission::Side { output, packet });
        }
    }
}

fn output<T: ?Sized + PortType>(port: Out<T>) -> Option<u16> {
    port.index().map(|index| index as u16)
}
