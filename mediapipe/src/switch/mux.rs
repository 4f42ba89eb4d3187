//! `SwitchMuxCalculator`: passes the streams of a switch on from the chosen channel.

use std::{collections::VecDeque, sync::Arc};

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, Group, In, Offset, OpenCx, Out, Payload, Policy, Result,
    Timestamp, register,
};

use super::{Arrival, ChannelHistory, Selector, SwitchContainerOptions, channel_tag, channels};
use crate::pass_through::{SidePair, pass_sides};

/// Passes on the streams of one of several channels: `VIDEO` gets the packets of `C0__VIDEO` while
/// channel 0 is chosen, and of `C1__VIDEO` while channel 1 is. Packets of other channels are
/// dropped. It chooses as `SwitchDemuxCalculator` does. Side packets come from the channel that is
/// chosen first.
///
/// ```pbtxt
/// input_stream: "faces_fast"
/// input_stream: "faces_thorough"
/// input_stream: "thorough"
/// output_stream: "faces"
/// node {
///   calculator: "SwitchMuxCalculator"
///   input_stream: "ENABLE:thorough"
///   input_stream: "C0__FACES:faces_fast"
///   input_stream: "C1__FACES:faces_thorough"
///   output_stream: "FACES:faces"
/// }
/// ```
pub struct SwitchMux {
    history: ChannelHistory,
    /// Undecided arrivals, by channel and stream.
    waiting: Vec<Vec<VecDeque<Arrival>>>,
}

/// The port handles of [`SwitchMux`].
#[derive(Clone, Debug)]
pub struct Ports {
    selector: Selector,
    /// The ports of each channel, in order.
    channels: Arc<[Channel]>,
}

/// The ports of one channel.
#[derive(Clone, Debug, Default)]
struct Channel {
    streams: Vec<(In<dyn Payload>, Out<dyn Payload>)>,
    sides: Vec<SidePair>,
}

impl Calculator for SwitchMux {
    const NAME: &'static str = "SwitchMuxCalculator";
    const DOC: &'static str = "Passes on the streams of the chosen channel.";
    const OPTION_NAMES: &'static [&'static str] = &["mediapipe.SwitchContainerOptions"];
    type Options = SwitchContainerOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, options: &SwitchContainerOptions) -> Ports {
        options.refuse_contained(c);
        c.policy(Policy::Immediate);
        c.process_timestamp_bounds();
        c.offset(Offset::Unset);
        let selector = Selector::declare(c);
        let (streams, tags) = channels(c, Group::Inputs);
        let (sides, side_tags) = channels(c, Group::InputSides);
        let mut channels = vec![Channel::default(); streams.max(sides)];
        for tag in &tags {
            let mut first = None;
            let mut outputs = None;
            for (number, channel) in channels.iter_mut().enumerate() {
                let tag_of_channel = channel_tag(number, tag);
                if c.count(Group::Inputs, &tag_of_channel) == 0 {
                    continue;
                }
                let inputs = match first {
                    None => c.inputs(&tag_of_channel),
                    Some(first) => c.inputs_same_as(&tag_of_channel, first),
                };
                first.get_or_insert(inputs);
                let outputs = *outputs.get_or_insert_with(|| c.outputs_same_as(tag, inputs));
                channel.streams.extend(inputs.iter().zip(outputs.iter()));
            }
        }
        for tag in &side_tags {
            let outputs = c.optional_output_sides::<dyn Payload>(tag);
            for (number, channel) in channels.iter_mut().enumerate() {
                let inputs = c.optional_sides::<dyn Payload>(&channel_tag(number, tag));
                channel.sides.extend(inputs.iter().zip(outputs.iter()));
            }
        }
        Ports {
            selector,
            channels: channels.into(),
        }
    }

    fn open(options: &SwitchContainerOptions, io: Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        let first = io.selector.first(options, cx);
        let channel = usize::try_from(first)
            .ok()
            .and_then(|first| io.channels.get(first));
        let sides = channel.map_or(&[][..], |channel| &channel.sides);
        pass_sides(sides.iter().copied(), cx);
        let queues = |channel: &Channel| vec![VecDeque::new(); channel.streams.len()];
        Ok(Self {
            history: ChannelHistory::new(first, io.channels.len())?,
            waiting: io.channels.iter().map(queues).collect(),
        })
    }

    fn process(&mut self, io: Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        self.history.record(io.selector, cx)?;
        for (channel, queues) in io.channels.iter().zip(&mut self.waiting) {
            for (&(input, _), queue) in channel.streams.iter().zip(queues) {
                queue.extend(Arrival::take(input, cx));
            }
        }
        while !self.send_first_epoch(&io, cx) {}
        Ok(Flow::Continue)
    }
}

impl SwitchMux {
    /// Sends the arrivals of the first epoch, and forgets the epoch once nothing more can come for
    /// it. Returns true if there is nothing to do after that.
    fn send_first_epoch(&mut self, io: &Ports, cx: &mut Cx<'_>) -> bool {
        let epoch = self.history.epochs[0];
        let next = self.history.epochs.get(1).map(|next| next.start);
        let end = next.unwrap_or(io.selector.settled(cx).next());
        let mut settled = Timestamp::DONE;
        let number = usize::try_from(epoch.channel).unwrap_or(usize::MAX);
        if let (Some(channel), Some(queues)) =
            (io.channels.get(number), self.waiting.get_mut(number))
        {
            for (&(input, output), queue) in channel.streams.iter().zip(queues) {
                while let Some(arrival) = queue.pop_front_if(|arrival| arrival.time < end) {
                    if arrival.time >= epoch.start {
                        arrival.send(output, cx);
                    }
                }
                settled = settled.min(cx.settled(input));
            }
        }
        if next.is_none() || settled.next() < end {
            return true;
        }
        self.history.epochs.remove(0);
        for queue in self.waiting.iter_mut().flatten() {
            while queue.pop_front_if(|arrival| arrival.time < end).is_some() {}
        }
        false
    }
}
register!(SwitchMux);
