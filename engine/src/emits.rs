//! The output of a call of a node. It leaves the node when the call has returned, in the order in
//! which it was emitted.

use std::{fmt, sync::Arc};

use smallvec::SmallVec;

use crate::{
    packet::{Packet, Payload},
    port::{In, Out, OutSide, PortType},
    timestamp::Timestamp,
};

/// One thing a call puts out; `output` counts within the node.
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
    /// The output stream it goes to, if it goes to one.
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

/// Says what a pending call waits for.
pub(crate) type Description = Box<dyn Fn() -> String + Send>;

/// A call of an async node, as its future sees it.
pub(crate) trait AsyncCall: fmt::Debug + Send + Sync {
    /// Replaces what it waits for.
    fn waits_for(&self, what: Description);
}

/// Collects the outputs of one call.
#[derive(Debug)]
pub struct Emits {
    time: Timestamp,
    pub(crate) list: Vec<Emission>,
    /// How many holds the call made.
    pub(crate) holds: u32,
    /// There are bounds in the list.
    bounds: bool,
    /// The call panicked.
    pub(crate) panicked: bool,
    /// The call, if it is one of an async node.
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

    /// Drops the bounds that something later on the same output covers: a call is seen from outside
    /// as one step.
    pub(crate) fn merge_bounds(&mut self) {
        if !std::mem::take(&mut self.bounds) || self.list.len() < 2 {
            return;
        }
        // By output, up to where what comes later settles it.
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

    /// The timestamp that [`Self::emit`] gives: that of the input set, or, for an event and while
    /// closing, the first one that is still free on all outputs of the node.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Emits a value at [`Self::time`].
    pub fn emit<T: Payload>(&mut self, port: Out<T>, value: T) {
        if let Some(output) = output(port) {
            let packet = Packet::new(self.time, value);
            self.list.push(Emission::Packet { output, packet });
        }
    }

    /// Emits a value at a timestamp of its own.
    pub fn emit_at<T: Payload>(&mut self, port: Out<T>, time: impl Into<Timestamp>, value: T) {
        if let Some(output) = output(port) {
            let packet = Packet::new(time, value);
            self.list.push(Emission::Packet { output, packet });
        }
    }

    /// Emits a packet as it is, sharing its value.
    pub fn emit_packet(&mut self, port: Out<dyn Payload>, packet: Packet) {
        self.pass(port, packet);
    }

    /// Emits a packet of which the caller knows that it is a `T`.
    pub(crate) fn pass<T: ?Sized + PortType>(&mut self, port: Out<T>, packet: Packet) {
        if let Some(output) = output(port) {
            self.list.push(Emission::Packet { output, packet });
        }
    }

    /// Says that nothing before `at` will be emitted any more.
    pub fn bound<T: ?Sized + PortType>(&mut self, port: Out<T>, at: Timestamp) {
        if let Some(output) = output(port) {
            self.bounds = true;
            self.list.push(Emission::Bound { output, at });
        }
    }

    /// Moves the bound of an output like [`Self::bound`], but does nothing if the output is further
    /// already.
    pub fn bound_at_least<T: ?Sized + PortType>(&mut self, port: Out<T>, at: Timestamp) {
        if let Some(output) = output(port) {
            self.bounds = true;
            self.list.push(Emission::AtLeast { output, at });
        }
    }

    /// Closes one output; what is emitted there afterwards is an error.
    pub fn close<T: ?Sized + PortType>(&mut self, port: Out<T>) {
        if let Some(output) = output(port) {
            self.list.push(Emission::Close { output });
        }
    }

    /// Says what the call of an async node waits for from now on, in words that can follow "waits
    /// for". `what` is called when somebody looks at the session, and must not block. Of nodes that
    /// are not async, [`Calculator::waits_for`](crate::Calculator::waits_for) is asked instead.
    pub fn waits_for(&mut self, what: impl Fn() -> String + Send + 'static) {
        if let Some(call) = &self.call {
            call.waits_for(Box::new(what));
        }
    }

    /// Takes no more packets of an input until it is [resumed](Self::resume): they wait in its queue,
    /// and whoever makes them waits when that is full. The node is not called for them, nor is it
    /// closed before they came.
    pub fn pause<T: ?Sized + PortType>(&mut self, port: In<T>) {
        self.set_paused(port, true);
    }

    /// Takes packets of an input again.
    pub fn resume<T: ?Sized + PortType>(&mut self, port: In<T>) {
        self.set_paused(port, false);
    }

    fn set_paused<T: ?Sized + PortType>(&mut self, port: In<T>, paused: bool) {
        if let Some(input) = port.index() {
            let input = input as u16;
            self.list.push(Emission::Pause { input, paused });
        }
    }

    /// Sets an output side packet; each once.
    pub fn side<T: Payload>(&mut self, port: OutSide<T>, value: T) {
        if let Some(output) = port.index() {
            self.list.push(Emission::Side {
                output: output as u16,
                packet: Packet::side(value),
            });
        }
    }

    /// Sets an output side packet to a value that is shared with another.
    pub fn side_packet(&mut self, port: OutSide<dyn Payload>, packet: Packet) {
        if let Some(output) = port.index() {
            self.list.push(Emission::Side {
                output: output as u16,
                packet,
            });
        }
    }
}

fn output<T: ?Sized + PortType>(port: Out<T>) -> Option<u16> {
    port.index().map(|index| index as u16)
}
