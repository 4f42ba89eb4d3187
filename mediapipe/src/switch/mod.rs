//! Switches, of which one of several nodes works at a time. A `SwitchContainer` is expanded to a
//! `SwitchDemuxCalculator`, the nodes it contains, and a `SwitchMuxCalculator`.
//!
//! The streams of one contained node are a *channel*; those of channel 2 have tags that begin with
//! `C2__`.

mod container;
mod demux;
mod mux;
#[cfg(test)]
mod tests;
mod wiring;

pub use container::{SwitchContainer, SwitchContainerOptions};
pub use demux::SwitchDemux;
use graphmill_engine::{
    Contract, Cx, Group, In, OpenCx, Packet, Payload, Result, Side, Timestamp, port::PortType,
};
pub use mux::SwitchMux;

use super::mux::no_such_port;

/// Returns the tag of a channel's stream.
fn channel_tag(channel: usize, tag: &str) -> String {
    format!("C{channel}__{tag}")
}

/// Returns the number of channels that a group's tags belong to, and the tags without their prefix.
fn channels(c: &Contract, group: Group) -> (usize, Vec<String>) {
    let (mut count, mut tags) = (0, Vec::new());
    for tag in c.tags(group) {
        let Some((channel, tag)) = tag.strip_prefix('C').and_then(|rest| rest.split_once("__"))
        else {
            continue;
        };
        let Ok(channel) = channel.parse::<usize>() else {
            continue;
        };
        count = count.max(channel + 1);
        if !tags.iter().any(|known| known == tag) {
            tags.push(tag.to_owned());
        }
    }
    (count, tags)
}

/// The ports that choose the channel: a number or, for the first two channels, a boolean, on a
/// stream or as a side packet.
#[derive(Copy, Clone, Debug)]
struct Selector {
    select: In<i64>,
    enable: In<bool>,
    select_side: Side<i64>,
    enable_side: Side<bool>,
}

impl Selector {
    fn declare(c: &mut Contract) -> Self {
        Self {
            select: c.optional("SELECT"),
            enable: c.optional("ENABLE"),
            select_side: c.optional_side("SELECT"),
            enable_side: c.optional_side("ENABLE"),
        }
    }

    /// Returns the channel before the first packet: that of a side packet, else of the options,
    /// else the first.
    fn first(self, options: &SwitchContainerOptions, cx: &OpenCx<'_>) -> i64 {
        let by_side = cx.side(self.select_side).copied();
        by_side
            .or_else(|| cx.side(self.enable_side).copied().map(i64::from))
            .or_else(|| options.select.map(i64::from))
            .or_else(|| options.enable.map(i64::from))
            .unwrap_or(0)
    }

    /// Returns the channel that a call chooses, if it chooses one.
    fn chosen(self, cx: &Cx<'_>) -> Option<i64> {
        let by_number = cx.get(self.select).copied();
        by_number.or_else(|| cx.get(self.enable).copied().map(i64::from))
    }

    /// Returns the timestamp up to which the choice is known.
    fn settled(self, cx: &Cx<'_>) -> Timestamp {
        if self.enable.is_connected() {
            cx.settled(self.enable)
        } else if self.select.is_connected() {
            cx.settled(self.select)
        } else {
            Timestamp::DONE
        }
    }
}

/// The chosen channels over time.
#[derive(Debug)]
struct ChannelHistory {
    /// Ascending in time; never empty.
    epochs: Vec<Epoch>,
    /// Number of channels. A choice must be below it.
    channels: usize,
}

/// A time in which one channel is chosen; it ends where the next one starts.
#[derive(Copy, Clone, Debug)]
struct Epoch {
    start: Timestamp,
    channel: i64,
}

impl ChannelHistory {
    /// Starts with the channel that is chosen first. Fails if there is no such channel, as
    /// [`record`](Self::record) does.
    fn new(channel: i64, channels: usize) -> Result<Self> {
        let start = Timestamp::UNSTARTED;
        let history = Self {
            epochs: vec![Epoch { start, channel }],
            channels,
        };
        history.check(channel).map(|()| history)
    }

    fn check(&self, channel: i64) -> Result<()> {
        match usize::try_from(channel) {
            Ok(number) if number < self.channels => Ok(()),
            _ => Err(no_such_port(channel, self.channels, "channel").with_field("SELECT")),
        }
    }

    /// Records the channel that the call chooses.
    fn record(&mut self, selector: Selector, cx: &Cx<'_>) -> Result<()> {
        let last = self.epochs.last().map(|epoch| epoch.channel);
        if selector.settled(cx) == cx.time()
            && let Some(channel) = selector.chosen(cx).filter(|&channel| Some(channel) != last)
        {
            self.check(channel)?;
            let start = cx.time();
            self.epochs.push(Epoch { start, channel });
        }
        Ok(())
    }
}

/// An arrival on a stream: a packet, or the news that there is none up to a timestamp.
#[derive(Clone, Debug)]
struct Arrival {
    time: Timestamp,
    packet: Option<Packet>,
}

impl Arrival {
    /// Takes an input's arrival at the call's timestamp, if it has one.
    fn take<T: ?Sized + PortType>(input: In<T>, cx: &mut Cx<'_>) -> Option<Self> {
        let time = cx.settled(input);
        (time == cx.time()).then(|| Self {
            time,
            packet: cx.take_packet(input),
        })
    }

    fn send(self, output: graphmill_engine::Out<dyn Payload>, cx: &mut Cx<'_>) {
        match self.packet {
            Some(packet) => cx.out().emit_packet(output, packet),
            None => cx.out().bound_at_least(output, self.time.next()),
        }
    }
}
