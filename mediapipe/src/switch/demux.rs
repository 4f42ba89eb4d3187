//! `SwitchDemuxCalculator`: passes the streams of a switch on to the chosen channel.

use std::{collections::VecDeque, sync::Arc};

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, Group, In, Offset, OpenCx, Out, Payload, Policy, Result,
    register,
};

use super::{Arrival, ChannelHistory, Selector, SwitchContainerOptions, channel_tag, channels};
use crate::pass_through::{SidePair, pass_sides};

/// Passes its streams on to one of several channels: packets of `VIDEO` go to `C0__VIDEO` while
/// channel 0 is chosen, and to `C1__VIDEO` while channel 1 is. `SELECT` chooses by number, `ENABLE`
/// between 0 and 1. Each is a stream, a side packet or an option; the first of these that is given
/// counts. A number without a channel is an error. Side packets go to all channels.
///
/// ```pbtxt
/// input_stream: "frames"
/// input_stream: "thorough"
/// output_stream: "frames_fast"
/// output_stream: "frames_thorough"
/// node {
///   calculator: "SwitchDemuxCalculator"
///   input_stream: "ENABLE:thorough"
///   input_stream: "FRAMES:frames"
///   output_stream: "C0__FRAMES:frames_fast"
///   output_stream: "C1__FRAMES:frames_thorough"
/// }
/// ```
pub struct SwitchDemux {
    history: ChannelHistory,
    /// Arrivals of each stream whose channel is not known yet.
    waiting: Vec<VecDeque<Arrival>>,
}

/// The port handles of [`SwitchDemux`].
#[derive(Clone, Debug)]
pub struct Ports {
    selector: Selector,
    channels: usize,
    streams: Arc<[DemuxStream]>,
    /// Each side packet with each of the channels it goes to.
    sides: Arc<[SidePair]>,
}

/// An input and its output in each channel.
#[derive(Clone, Debug)]
struct DemuxStream {
    input: In<dyn Payload>,
    outputs: Vec<Option<Out<dyn Payload>>>,
}

impl Calculator for SwitchDemux {
    const NAME: &'static str = "SwitchDemuxCalculator";
    const DOC: &'static str = "Passes streams on to the chosen channel.";
    const OPTION_NAMES: &'static [&'static str] = &["mediapipe.SwitchContainerOptions"];
    type Options = SwitchContainerOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, options: &SwitchContainerOptions) -> Ports {
        options.refuse_contained(c);
        if !options.synchronize_io {
            c.policy(Policy::Immediate);
        }
        c.process_timestamp_bounds();
        c.offset(Offset::Unset);
        let selector = Selector::declare(c);
        let (count, tags) = channels(c, Group::Outputs);
        let mut streams = Vec::new();
        for tag in &tags {
            let inputs = c.inputs::<dyn Payload>(tag);
            let mut channels = Vec::new();
            for channel in 0..count {
                let tag = channel_tag(channel, tag);
                let connected = c.count(Group::Outputs, &tag) > 0;
                channels.push(connected.then(|| c.outputs_same_as(&tag, inputs)));
            }
            streams.extend(inputs.iter().enumerate().map(|(at, input)| {
                DemuxStream {
                    input,
                    outputs: channels
                        .iter()
                        .map(|outputs| outputs.and_then(|outputs| outputs.get(at)))
                        .collect(),
                }
            }));
        }
        let of_streams = count;
        let (count, tags) = channels(c, Group::OutputSides);
        let mut sides = Vec::new();
        for tag in &tags {
            let inputs = c.optional_sides::<dyn Payload>(tag);
            for channel in 0..count {
                let outputs = c.optional_output_sides::<dyn Payload>(&channel_tag(channel, tag));
                sides.extend(inputs.iter().zip(outputs.iter()));
            }
        }
        Ports {
            selector,
            channels: of_streams.max(count),
            streams: streams.into(),
            sides: sides.into(),
        }
    }

    fn open(options: &SwitchContainerOptions, io: Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        pass_sides(io.sides.iter().copied(), cx);
        Ok(Self {
            history: ChannelHistory::new(io.selector.first(options, cx), io.channels)?,
            waiting: vec![VecDeque::new(); io.streams.len()],
        })
    }

    fn process(&mut self, io: Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        self.history.record(io.selector, cx)?;
        let settled = io.selector.settled(cx);
        for (stream, waiting) in io.streams.iter().zip(&mut self.waiting) {
            waiting.extend(Arrival::take(stream.input, cx));
            while let Some(arrival) = waiting.pop_front_if(|arrival| arrival.time <= settled) {
                let channel = self.history.at(arrival.time);
                let output = channel.and_then(|channel| *stream.outputs.get(channel)?);
                if let Some(output) = output {
                    arrival.send(output, cx);
                }
            }
        }
        // Packets that come later for an earlier epoch are dropped.
        let epochs = &mut self.history.epochs;
        epochs.drain(..epochs.len() - 1);
        Ok(Flow::Continue)
    }
}

impl ChannelHistory {
    /// Returns the channel at a timestamp, or `None` before the remembered epochs.
    fn at(&self, time: graphmill_engine::Timestamp) -> Option<usize> {
        let epoch = self.epochs.iter().rfind(|epoch| epoch.start <= time)?;
        usize::try_from(epoch.channel).ok()
    }
}
register!(SwitchDemux);
