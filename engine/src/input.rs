//! The consumer's side of a stream: the queue of an input, and the input set of a call.
//!
//! A queue knows its *bound*, the smallest timestamp that can still arrive. A packet moves the
//! bound past itself; a bound can also move alone. Policies decide from heads and bounds whether a
//! timestamp is settled.

use std::{any::Any, collections::VecDeque};

use smallvec::SmallVec;

use crate::{
    error::{Error, Result},
    packet::{Packet, Payload},
    port::{Events, In, PortType},
    timestamp::Timestamp,
};

/// Packets of one input stream that wait for one node.
#[derive(Debug)]
pub struct InputQueue {
    /// Oldest packet. If the node keeps up, it is the only one and the queue allocates no memory.
    first: Option<Packet>,
    /// Later packets; empty if `first` is `None`.
    rest: VecDeque<Packet>,
    bound: Timestamp,
    /// Set after the first packet has arrived.
    begun: bool,
    /// Set while the node takes no packets from this queue.
    paused: bool,
}

impl Default for InputQueue {
    fn default() -> Self {
        Self {
            first: None,
            rest: VecDeque::new(),
            bound: Timestamp::PRE_STREAM,
            begun: false,
            paused: false,
        }
    }
}

/// To policies, a paused queue looks empty, as if its first packet had not arrived yet.
impl InputQueue {
    /// Returns the number of waiting packets, also while the queue is paused.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Returns `true` if no packet waits or the queue is paused.
    pub fn is_empty(&self) -> bool {
        self.front().is_none()
    }

    /// Returns the smallest timestamp that can still arrive; while paused, that of the first
    /// packet.
    pub fn bound(&self) -> Timestamp {
        match &self.first {
            Some(first) if self.paused => first.time,
            _ => self.bound,
        }
    }

    /// Returns the timestamp of the oldest packet. `None` while paused.
    #[inline]
    pub fn head(&self) -> Option<Timestamp> {
        self.front().map(|packet| packet.time)
    }

    /// Returns the timestamp of the first packet, or the bound if none waits.
    #[inline]
    pub fn head_or_bound(&self) -> Timestamp {
        self.head().unwrap_or(self.bound())
    }

    /// Iterates over the timestamps of the waiting packets, oldest first.
    pub fn times(&self) -> impl DoubleEndedIterator<Item = Timestamp> + '_ {
        self.first
            .iter()
            .chain(&self.rest)
            .map(|packet| packet.time)
    }

    /// Returns `true` if no packet waits, paused or not, and none can arrive.
    pub fn is_done(&self) -> bool {
        self.first.is_none() && self.bound == Timestamp::DONE
    }

    /// Returns the oldest packet without taking it. `None` while paused.
    #[inline]
    pub fn front(&self) -> Option<&Packet> {
        self.first.as_ref().filter(|_| !self.paused)
    }

    /// Returns `true` if packets wait in a paused queue.
    pub(crate) fn holds_paused(&self) -> bool {
        self.paused && self.first.is_some()
    }

    /// Pauses the queue, or resumes it.
    pub(crate) fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Takes the oldest packet, also while the queue is paused.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        let packet = self.first.take();
        self.first = self.rest.pop_front();
        packet
    }

    /// Takes the packet at `at` and drops earlier ones. Packets at or before `at` can no longer
    /// arrive.
    #[inline]
    pub fn pop_at(&mut self, at: Timestamp) -> Option<Packet> {
        self.drop_before(at);
        if self.bound <= at {
            self.bound = at.next();
        }
        if self.head() == Some(at) {
            self.pop()
        } else {
            None
        }
    }

    /// Drops the packets before `at`.
    pub fn drop_before(&mut self, at: Timestamp) {
        while self.head().is_some_and(|head| head < at) {
            self.pop();
        }
    }

    /// Appends a packet. With `timed`, its timestamp must be at the bound or later.
    #[inline]
    pub(crate) fn add(&mut self, packet: Packet, timed: bool) -> Result<(), BadTime> {
        if timed {
            let alone = packet.time == Timestamp::POST_STREAM && self.begun;
            if packet.time < self.bound || alone {
                return Err(BadTime {
                    bound: self.bound,
                    time: packet.time,
                });
            }
            self.bound = packet.time.next();
        }
        self.begun = true;
        if self.first.is_none() {
            self.first = Some(packet);
        } else {
            self.rest.push_back(packet);
        }
        Ok(())
    }

    /// Moves the bound forward. Returns `true` if it moved.
    #[inline]
    pub(crate) fn advance(&mut self, bound: Timestamp) -> bool {
        let moved = bound > self.bound;
        self.bound = self.bound.max(bound);
        moved
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.first = None;
        self.rest.clear();
        self.bound = Timestamp::DONE;
    }
}

/// A packet or bound that is earlier than the bound of its queue.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadTime {
    pub(crate) bound: Timestamp,
    pub(crate) time: Timestamp,
}

#[derive(Debug)]
struct PortSlot {
    packet: Option<Packet>,
    time: Timestamp,
}

/// A value sent from outside the graph to an event port of a node.
pub(crate) struct Event {
    pub(crate) port: u16,
    pub(crate) value: Box<dyn Any + Send>,
}

/// Inputs of one call of a node: for each input stream an optional packet and the last settled
/// timestamp.
pub struct InputSet {
    time: Timestamp,
    slots: SmallVec<[PortSlot; 2]>,
    event: Option<Event>,
}

impl Default for InputSet {
    fn default() -> Self {
        Self::new(0)
    }
}

impl InputSet {
    pub(crate) fn new(inputs: usize) -> Self {
        let empty = || PortSlot {
            packet: None,
            time: Timestamp::UNSTARTED,
        };
        let mut slots = SmallVec::new();
        slots.resize_with(inputs, empty);
        Self {
            time: Timestamp::UNSTARTED,
            slots,
            event: None,
        }
    }

    /// Returns the timestamp of the call.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Returns the value on an input, if there is one.
    pub fn get<T: Payload>(&self, port: In<T>) -> Option<&T> {
        self.packet(port)?.get()
    }

    /// Takes the value of an input: moved if nobody else holds it, else cloned.
    pub fn take<T: Payload + Clone>(&mut self, port: In<T>) -> Option<T> {
        self.take_packet(port)?.into_value()
    }

    /// Returns the packet on an input, if there is one.
    pub fn packet<T: ?Sized + PortType>(&self, port: In<T>) -> Option<&Packet> {
        self.slots[port.index()?].packet.as_ref()
    }

    /// Takes the packet of an input, if there is one.
    pub fn take_packet<T: ?Sized + PortType>(&mut self, port: In<T>) -> Option<Packet> {
        self.slots[port.index()?].packet.take()
    }

    /// Returns the last settled timestamp of an input: that of its packet, or the last one that is
    /// certain to have no packet.
    pub fn settled<T: ?Sized + PortType>(&self, port: In<T>) -> Timestamp {
        port.index()
            .map_or(Timestamp::UNSTARTED, |index| self.slots[index].time)
    }

    /// Takes the event of this call, if it arrived at `port`.
    pub fn event<T: Send + 'static>(&mut self, port: Events<T>) -> Option<T> {
        let event = self
            .event
            .take_if(|event| Some(event.port as usize) == port.index())?;
        event.value.downcast().ok().map(|value| *value)
    }

    /// Moves the packet at `at`, if there is one, from `queue` to input `input`. Policies call it
    /// for the streams that they deliver.
    #[inline]
    pub fn fill(&mut self, input: usize, queue: &mut InputQueue, at: Timestamp) {
        let slot = &mut self.slots[input];
        slot.packet = queue.pop_at(at);
        slot.time = match &slot.packet {
            Some(packet) => packet.time,
            None => queue.head_or_bound().prev(),
        };
    }

    /// Leaves input `input` empty and records the last settled timestamp of `queue`. Policies call
    /// it for the streams that they hold back.
    pub fn hold_back(&mut self, input: usize, queue: &InputQueue) {
        self.slots[input] = PortSlot {
            packet: None,
            time: queue.head_or_bound().prev(),
        };
    }

    /// Puts a packet on input `input`, whatever its type.
    pub fn put(&mut self, input: usize, packet: Packet) {
        self.slots[input] = PortSlot {
            time: packet.time,
            packet: Some(packet),
        };
    }

    #[inline]
    pub(crate) fn set_time(&mut self, time: Timestamp) {
        self.time = time;
    }

    pub(crate) fn set_event(&mut self, event: Event) {
        self.event = Some(event);
    }

    pub(crate) fn clear(&mut self) {
        for slot in &mut self.slots {
            slot.packet = None;
        }
        self.event = None;
    }
}

impl std::fmt::Debug for InputSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.time)?;
        f.debug_list()
            .entries(self.slots.iter().map(|slot| &slot.packet))
            .finish()
    }
}

/// Makes the error for a packet whose timestamp no stream can hold.
pub(crate) fn illegal_time(stream: &str, time: Timestamp) -> Error {
    Error::invalid(format!(
        "timestamp `{time}` is not allowed for packets of stream `{stream}`"
    ))
}
