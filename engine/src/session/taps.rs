//! Receivers of packets outside the graph: observers, and readers of outputs.

use std::task::Waker;

use crate::{error::Result, packet::Packet, timestamp::Timestamp};

use super::{
    mailbox::{CAPACITY, Exchange},
    message::SessionMessage,
    streams::{StreamState, alone_at_the_end, out_of_order},
};

/// A callback with each packet of a stream, or with the timestamp up to which the stream is
/// settled.
pub(super) type Observer = Box<dyn FnMut(Timestamp, Option<&Packet>) -> Result<()> + Send>;

#[derive(Default)]
pub(super) struct Taps(Vec<Tap>);

/// A receiver outside the graph for the packets of a stream.
struct Tap {
    stream: u32,
    /// Last timestamp that the receiver has seen.
    last: Timestamp,
    /// Set once the receiver has got a packet.
    begun: bool,
    to: TapTo,
}

enum TapTo {
    Observer { bounds: bool, observer: Observer },
    Output(Output),
}

/// A queue whose other half is in the exchange.
struct Output {
    /// Number of the output in the exchange.
    index: usize,
    /// Packets that are not handed over yet.
    local: Vec<Packet>,
    /// Number of packets that the reader has not taken.
    unread: usize,
    full: bool,
    /// Set if the reader is gone.
    abandoned: bool,
}

impl Output {
    /// Updates the record that the output is full. Returns the new state if it has changed.
    fn refresh(&mut self) -> Option<bool> {
        let now = !self.abandoned && self.unread + self.local.len() >= CAPACITY;
        let before = std::mem::replace(&mut self.full, now);
        (now != before).then_some(now)
    }
}

impl Taps {
    pub(super) fn observe(&mut self, stream: u32, bounds: bool, observer: Observer) {
        self.add(stream, TapTo::Observer { bounds, observer });
    }

    /// Adds the output with this number in the exchange.
    pub(super) fn add_output(&mut self, stream: u32, index: usize) {
        let output = Output {
            index,
            local: Vec::new(),
            unread: 0,
            full: false,
            abandoned: false,
        };
        self.add(stream, TapTo::Output(output));
    }

    fn add(&mut self, stream: u32, to: TapTo) {
        self.0.push(Tap {
            stream,
            last: Timestamp::UNSTARTED,
            begun: false,
            to,
        });
    }

    /// Gives a packet to the receivers of a stream, whose bound was `bound` before. Calls `changed`
    /// for outputs that become full.
    pub(super) fn packet(
        &mut self,
        (stream, name): (u32, &str),
        bound: Timestamp,
        packet: &Packet,
        mut changed: impl FnMut(bool),
    ) -> Result<()> {
        if packet.time < bound {
            return Err(out_of_order(name, bound, packet.time));
        }
        for tap in self.0.iter_mut().filter(|tap| tap.stream == stream) {
            if packet.time == Timestamp::POST_STREAM && tap.begun {
                return Err(alone_at_the_end(name));
            }
            tap.begun = true;
            tap.last = packet.time;
            match &mut tap.to {
                TapTo::Observer { bounds, observer } => {
                    observer(packet.time, Some(packet))?;
                    // No packet can follow one at PreStream, so the whole stream is settled.
                    let settled = packet.time.next().prev();
                    if *bounds && settled > packet.time {
                        tap.last = settled;
                        observer(settled, None)?;
                    }
                }
                TapTo::Output(output) => {
                    if !output.abandoned {
                        output.local.push(packet.clone());
                        output.refresh().into_iter().for_each(&mut changed);
                    }
                }
            }
        }
        Ok(())
    }

    /// Informs the observers of a stream that its bound has moved.
    pub(super) fn bound(&mut self, stream: u32, bound: Timestamp) -> Result<()> {
        if bound == Timestamp::DONE {
            return Ok(());
        }
        let settled = if bound == Timestamp::POST_STREAM {
            bound
        } else {
            bound.prev()
        };
        for tap in self.0.iter_mut().filter(|tap| tap.stream == stream) {
            if let TapTo::Observer {
                bounds: true,
                observer,
            } = &mut tap.to
                && tap.last < settled
            {
                tap.last = settled;
                observer(settled, None)?;
            }
        }
        Ok(())
    }

    /// Updates the numbers of unread packets. Calls `changed` for streams whose outputs become full
    /// or have room again.
    pub(super) fn look_at_readers(
        &mut self,
        exchange: &Exchange<SessionMessage, Packet>,
        mut changed: impl FnMut(u32, bool),
    ) {
        for tap in &mut self.0 {
            let TapTo::Output(output) = &mut tap.to else {
                continue;
            };
            let waiting = exchange.unread(output.index);
            output.unread = waiting.unwrap_or(0);
            output.abandoned = waiting.is_none();
            if let Some(full) = output.refresh() {
                changed(tap.stream, full);
            }
        }
    }

    /// Hands emitted packets to their readers.
    pub(super) fn hand_over(
        &mut self,
        streams: &[StreamState],
        exchange: &mut Exchange<SessionMessage, Packet>,
        wakers: &mut Vec<Waker>,
    ) {
        for tap in &mut self.0 {
            let TapTo::Output(output) = &mut tap.to else {
                continue;
            };
            let closed = streams[tap.stream as usize].closed;
            exchange.hand_over(output.index, &mut output.local, closed, wakers);
            output.unread = exchange.unread(output.index).unwrap_or(0);
        }
    }

    fn outputs(&self) -> impl Iterator<Item = (u32, &Output)> {
        self.0.iter().filter_map(|tap| match &tap.to {
            TapTo::Output(output) => Some((tap.stream, output)),
            TapTo::Observer { .. } => None,
        })
    }

    /// Returns the numbers of full outputs in the exchange.
    pub(super) fn full(&self) -> impl Iterator<Item = usize> {
        let full = self.outputs().filter(|(_, output)| output.full);
        full.map(|(_, output)| output.index)
    }

    /// Returns the number of packets that wait for the reader of a stream, if its output is full.
    pub(super) fn unread(&self, stream: u32) -> Option<usize> {
        let mut outputs = self.outputs();
        let full = outputs.find(|(of, output)| *of == stream && output.full);
        full.map(|(_, output)| output.unread + output.local.len())
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
