//! Exchange between a session and other threads: messages in, packets out, and wakers.
//!
//! Each method is one critical section of the surrounding lock. It wakes no task itself, but
//! returns the wakers, which the caller uses after releasing the lock. A message is stored and the
//! waker is taken in one section. The session goes to sleep only in a section that finds nothing to
//! do. So no wake-up is lost, and a session that is awake is not woken again. The same holds for
//! tasks that wait for room or packets. A channel would not suffice: its room is fixed, and it
//! would store the message and take the waker in two sections. This file depends on no other file
//! of the engine, so that a test can run every interleaving.

use std::{
    collections::VecDeque,
    task::{Context, Waker},
};

use smallvec::SmallVec;

/// Maximum number of packets that wait for a reader, unless the session hands over more at once.
pub(super) const CAPACITY: usize = 16;

/// Both sides of a session's exchange: messages `M` come in, packets `P` go out.
pub(super) struct Exchange<M, P> {
    inbox: VecDeque<M>,
    /// Waker of the session, present while it sleeps.
    waker: Option<Waker>,
    /// State of each graph input.
    gates: SmallVec<[InputGate; 2]>,
    outputs: SmallVec<[Output<P>; 2]>,
}

/// The room of a graph input.
struct InputGate {
    /// Number of packets in the inbox.
    staged: usize,
    /// Free room in the queues of its consumers, when the session last looked.
    room: usize,
    closed: bool,
    pushers: Vec<Waker>,
}

/// Packets on their way out of the session.
struct Output<P> {
    packets: VecDeque<P>,
    closed: bool,
    /// Set if the reader is gone.
    abandoned: bool,
    /// Set while the session waits for room.
    full: bool,
    reader: Option<Waker>,
}

/// The result of pushing a packet to a graph input.
pub(super) enum PushOutcome<M> {
    /// The packet is in the inbox. The caller must wake this waker.
    Yes(Option<Waker>),
    /// There is no room; the packet is returned.
    Full(M),
}

/// The result of reading an output.
pub(super) enum Next<P> {
    /// The next packet. The caller must wake this waker.
    Packet(P, Option<Waker>),
    Empty,
    Closed,
}

impl<M, P> Exchange<M, P> {
    /// Makes an exchange with a gate for each graph input, each with the given room.
    pub(super) fn new(rooms: impl Iterator<Item = usize>) -> Self {
        let gate = |room| InputGate {
            staged: 0,
            room,
            closed: false,
            pushers: Vec::new(),
        };
        Self {
            inbox: VecDeque::new(),
            waker: None,
            gates: rooms.map(gate).collect(),
            outputs: SmallVec::new(),
        }
    }

    /// Adds an output and returns its number.
    pub(super) fn add_output(&mut self) -> usize {
        self.outputs.push(Output {
            packets: VecDeque::new(),
            closed: false,
            abandoned: false,
            full: false,
            reader: None,
        });
        self.outputs.len() - 1
    }

    // Methods for other threads.

    /// Puts a message into the inbox.
    pub(super) fn post(&mut self, message: M) -> Option<Waker> {
        self.inbox.push_back(message);
        self.waker.take()
    }

    /// Puts a packet, wrapped in a message, into the inbox. If there is no room and `cx` is given,
    /// its task is woken when there is.
    pub(super) fn push(
        &mut self,
        gate: usize,
        message: M,
        cx: Option<&Context<'_>>,
    ) -> PushOutcome<M> {
        let state = &mut self.gates[gate];
        if state.staged < state.room {
            state.staged += 1;
            return PushOutcome::Yes(self.post(message));
        }
        let mut pushers = state.pushers.iter();
        if let Some(cx) = cx
            && !pushers.any(|waker| waker.will_wake(cx.waker()))
        {
            state.pushers.push(cx.waker().clone());
        }
        PushOutcome::Full(message)
    }

    /// Returns `true` if a graph input is closed. The session decides about packets pushed after
    /// that.
    pub(super) fn is_closed(&self, gate: usize) -> bool {
        self.gates[gate].closed
    }

    /// Closes a graph input, unless it is closed already.
    pub(super) fn close(&mut self, gate: usize, message: M) -> Option<Waker> {
        if std::mem::replace(&mut self.gates[gate].closed, true) {
            return None;
        }
        self.post(message)
    }

    /// Takes the next packet of an output. If there is none and `cx` is given, its task is woken
    /// when there is.
    pub(super) fn next(&mut self, output: usize, cx: Option<&Context<'_>>) -> Next<P> {
        let state = &mut self.outputs[output];
        let Some(packet) = state.packets.pop_front() else {
            if state.closed {
                return Next::Closed;
            }
            state.reader = cx.map(|cx| cx.waker().clone());
            return Next::Empty;
        };
        // Waking the session at half lets it fill the queue at once instead of packet by packet.
        let wake = state.full && state.packets.len() <= CAPACITY / 2;
        state.full &= !wake;
        Next::Packet(packet, if wake { self.waker.take() } else { None })
    }

    /// Abandons an output. Returns its packets and the waker to call.
    pub(super) fn abandon(&mut self, output: usize) -> (VecDeque<P>, Option<Waker>) {
        let state = &mut self.outputs[output];
        state.abandoned = true;
        let packets = std::mem::take(&mut state.packets);
        let wake = if state.full { self.waker.take() } else { None };
        (packets, wake)
    }

    // Methods for the session.

    /// Swaps the inbox with an empty one.
    pub(super) fn receive(&mut self, inbox: &mut VecDeque<M>) {
        std::mem::swap(inbox, &mut self.inbox);
        for gate in &mut self.gates {
            gate.room = gate.room.saturating_sub(gate.staged);
            gate.staged = 0;
        }
    }

    /// Returns the number of packets of an output that wait for its reader; `None` if the reader is
    /// gone.
    pub(super) fn unread(&self, output: usize) -> Option<usize> {
        let state = &self.outputs[output];
        (!state.abandoned).then_some(state.packets.len())
    }

    /// Sets the free room of a graph input.
    pub(super) fn open(&mut self, gate: usize, room: usize, wakers: &mut Vec<Waker>) {
        let state = &mut self.gates[gate];
        state.room = room;
        if state.staged < room {
            wakers.append(&mut state.pushers);
        }
    }

    /// Hands packets to a reader, and the information whether more can come.
    pub(super) fn hand_over(
        &mut self,
        output: usize,
        packets: &mut Vec<P>,
        closed: bool,
        wakers: &mut Vec<Waker>,
    ) {
        let state = &mut self.outputs[output];
        if !packets.is_empty() || closed != state.closed {
            wakers.extend(state.reader.take());
        }
        state.closed = closed;
        if !state.abandoned {
            state.packets.extend(packets.drain(..));
        }
    }

    /// Puts the session to sleep until a message comes or one of the `full` outputs has room.
    /// Returns `false` if that is the case already.
    pub(super) fn sleep(&mut self, full: impl Iterator<Item = usize>, cx: &Context<'_>) -> bool {
        let mut roomy = false;
        for output in full {
            let state = &mut self.outputs[output];
            state.full = true;
            roomy |= state.abandoned || state.packets.len() <= CAPACITY / 2;
        }
        let asleep = self.inbox.is_empty() && !roomy;
        if asleep {
            self.waker = Some(cx.waker().clone());
        }
        asleep
    }

    /// Closes everything. Collects all wakers and returns the unread messages, which the caller
    /// drops after releasing the lock.
    pub(super) fn end(&mut self, wakers: &mut Vec<Waker>) -> VecDeque<M> {
        wakers.extend(self.waker.take());
        for output in &mut self.outputs {
            output.closed = true;
            wakers.extend(output.reader.take());
        }
        for gate in &mut self.gates {
            wakers.append(&mut gate.pushers);
        }
        std::mem::take(&mut self.inbox)
    }
}
