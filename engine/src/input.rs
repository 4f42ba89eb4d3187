//! The consumer's side of a stream: the queue of one input, and the set of inputs of one call.
//!
//! A queue knows its *bound*, the smallest timestamp that can still arrive. A packet moves the
//! bound past itself; a bound also moves alone. Whether a timestamp is settled follows from heads
//! and bounds, and is decided by the policies.

use std::{any::Any, collections::VecDeque};

use smallvec::SmallVec;

use crate::{
    error::{Error, Result},
    packet::{Packet, Payload},
    port::{Events, In, PortType},
    timestamp::Timestamp,
};

/// The packets of one input stream that wait for one node.
#[derive(Debug)]
pub struct InputQueue {
    /// The oldest packet. Where a node keeps pace it is the only one, and the queue needs no memory
    /// of its own.
    first: Option<Packet>,
    /// The others; empty if there is no first.
    rest: VecDeque<Packet>,
    bound: Timestamp,
    /// A packet has come.
    begun: bool,
    /// Its node takes nothing from it for now.
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

/// A queue that is paused looks empty, and as if the first packet in it were still to come.
impl InputQueue {
    /// How many packets wait.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.front().is_none()
    }

    /// The smallest timestamp that can still arrive.
    pub fn bound(&self) -> Timestamp {
        match &self.first {
            Some(first) if self.paused => first.time,
            _ => self.bound,
        }
    }

    /// The timestamp of the first packet.
    #[inline]
    pub fn head(&self) -> Option<Timestamp> {
        self.front().map(|packet| packet.time)
    }

    /// The timestamp of the first packet, or the bound if none waits.
    #[inline]
    pub fn head_or_bound(&self) -> Timestamp {
        self.head().unwrap_or(self.bound())
    }

    /// The timestamps of the packets that wait, oldest first.
    pub fn times(&self) -> impl DoubleEndedIterator<Item = Timestamp> + '_ {
        self.first
            .iter()
            .chain(&self.rest)
            .map(|packet| packet.time)
    }

    /// Whether nothing waits and nothing can come.
    pub fn is_done(&self) -> bool {
        self.first.is_none() && self.bound == Timestamp::DONE
    }

    /// The first packet.
    #[inline]
    pub fn front(&self) -> Option<&Packet> {
        self.first.as_ref().filter(|_| !self.paused)
    }

    /// Returns true if packets wait on a paused stream.
    pub(crate) fn holds_paused(&self) -> bool {
        self.paused && self.first.is_some()
    }

    /// Takes nothing from it for now, or goes on.
    pub(crate) fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Takes the first packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        let packet = self.first.take();
        self.first = self.rest.pop_front();
        packet
    }

    /// Takes the packet at `at`, dropping earlier ones. Nothing at or before `at` can arrive any
    /// more.
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

    /// Appends a packet. With `timed`, its timestamp has to be at the bound or later.
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

    /// Moves the bound; true if it moved.
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

/// A packet or bound came earlier than the bound of its queue allows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadTime {
    pub(crate) bound: Timestamp,
    pub(crate) time: Timestamp,
}

#[derive(Debug)]
struct Slot {
    packet: Option<Packet>,
    time: Timestamp,
}

/// Something from outside the graph, for one of a node's event ports.
pub(crate) struct Event {
    pub(crate) port: u16,
    pub(crate) value: Box<dyn Any + Send>,
}

/// The inputs of one call of a node: for each input stream a packet or none, and how far the stream
/// is settled.
pub struct InputSet {
    time: Timestamp,
    slots: SmallVec<[Slot; 2]>,
    event: Option<Event>,
}

impl Default for InputSet {
    fn default() -> Self {
        Self::new(0)
    }
}

impl InputSet {
    pub(crate) fn new(inputs: usize) -> Self {
        let empty = || Slot {
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

    /// The timestamp of the set.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// The value on an input, if there is one.
    pub fn get<T: Payload>(&self, port: In<T>) -> Option<&T> {
        self.packet(port)?.get()
    }

    /// Takes the value of an input: moved if this node is the last to hold it, else cloned.
    pub fn take<T: Payload + Clone>(&mut self, port: In<T>) -> Option<T> {
        self.take_packet(port)?.into_value()
    }

    /// The packet on an input, if there is one.
    pub fn packet<T: ?Sized + PortType>(&self, port: In<T>) -> Option<&Packet> {
        self.slots[port.index()?].packet.as_ref()
    }

    /// Takes the packet of an input.
    pub fn take_packet<T: ?Sized + PortType>(&mut self, port: In<T>) -> Option<Packet> {
        self.slots[port.index()?].packet.take()
    }

    /// How far an input is known: its packet's timestamp, or the last timestamp at which it is
    /// certain to have none.
    pub fn settled<T: ?Sized + PortType>(&self, port: In<T>) -> Timestamp {
        port.index()
            .map_or(Timestamp::UNSTARTED, |index| self.slots[index].time)
    }

    /// Takes the event this call is for, if it is one of `port`.
    pub fn event<T: Send + 'static>(&mut self, port: Events<T>) -> Option<T> {
        let event = self
            .event
            .take_if(|event| Some(event.port as usize) == port.index())?;
        event.value.downcast().ok().map(|value| *value)
    }

    /// Puts the packet at `at`, if any, of `queue` on input `input`: what a policy does with the
    /// streams it delivers.
    #[inline]
    pub fn fill(&mut self, input: usize, queue: &mut InputQueue, at: Timestamp) {
        let slot = &mut self.slots[input];
        slot.packet = queue.pop_at(at);
        slot.time = match &slot.packet {
            Some(packet) => packet.time,
            None => queue.head_or_bound().prev(),
        };
    }

    /// Leaves input `input` empty and notes how far `queue` is settled: what a policy does with the
    /// streams it holds back.
    pub fn hold_back(&mut self, input: usize, queue: &InputQueue) {
        self.slots[input] = Slot {
            packet: None,
            time: queue.head_or_bound().prev(),
        };
    }

    /// Puts any packet on input `input`.
    pub fn put(&mut self, input: usize, packet: Packet) {
        self.slots[input] = Slot {
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

/// The error of a packet that a stream cannot hold.
pub(crate) fn illegal_time(stream: &str, time: Timestamp) -> Error {
    Error::invalid(format!(
        "`{time}` cannot be the timestamp of a packet in stream `{stream}`"
    ))
}
