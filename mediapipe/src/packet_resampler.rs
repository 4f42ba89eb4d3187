//! `PacketResamplerCalculator`: a stream at a steady rate.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, Group, In, Offset, OpenCx, Out, Packet, Payload, Result,
    Side, Timestamp, register, register_payload,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Microseconds in a second: the unit of timestamps.
const MICROS: f64 = 1_000_000.0;

/// Maximum number of times that a packet is repeated in one gap. It is enough for more than ten
/// hours at 25 packets a second, and so many packets fit into memory.
const MAX_REPEATS: i64 = 1_000_000;

/// Treatment of a header with a frame rate. Streams have no headers here, so all values do the
/// same.
#[derive(Copy, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub enum OutputHeader {
    /// Drops the header.
    #[default]
    #[serde(rename = "NONE")]
    None,
    /// Passes the header on.
    #[serde(rename = "PASS_HEADER")]
    Pass,
    /// Passes the header on with the new rate.
    #[serde(rename = "UPDATE_VIDEO_HEADER")]
    Update,
}

/// Options of a `PacketResamplerCalculator` node.
#[derive(Copy, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PacketResamplerOptions {
    /// Packets per second: above 0, at most 1000000. Required.
    pub frame_rate: f64,
    /// Treatment of a header. It has no effect, because streams have no headers here.
    pub output_header: OutputHeader,
    /// At the end, emits the last packet at the nearest timestamp of the grid, if no packet was
    /// emitted there. Default: true.
    pub flush_last_packet: bool,
    /// Random deviation from the steady rate; only 0 is supported.
    pub jitter: f64,
    /// Style of jitter; not supported.
    pub jitter_with_reflection: bool,
    /// Makes jitter the same for the same input; not supported.
    pub reproducible_sampling: bool,
    /// A timestamp of the grid, in microseconds: the output's timestamps are a whole number of
    /// periods away from it. Default: the timestamp of the first packet.
    pub base_timestamp: Option<i64>,
    /// Start of the output: nothing is emitted before this timestamp, in microseconds.
    pub start_time: Option<i64>,
    /// End of the output: nothing is emitted at this timestamp, in microseconds, or later.
    pub end_time: Option<i64>,
    /// Extends both limits by half a period. Default: false.
    pub round_limits: bool,
}

impl Default for PacketResamplerOptions {
    fn default() -> Self {
        Self {
            frame_rate: -1.0,
            output_header: OutputHeader::None,
            flush_last_packet: true,
            jitter: 0.0,
            jitter_with_reflection: false,
            reproducible_sampling: false,
            base_timestamp: None,
            start_time: None,
            end_time: None,
            round_limits: false,
        }
    }
}

impl PacketResamplerOptions {
    fn check(&self) -> std::result::Result<(), &'static str> {
        if !(self.frame_rate > 0.0 && self.frame_rate <= MICROS) {
            return Err("`frame_rate` has to be above 0 and at most 1000000");
        }
        if self.jitter != 0.0 || self.jitter_with_reflection || self.reproducible_sampling {
            return Err("`jitter` is not supported; neither are the other options about jitter");
        }
        Ok(())
    }
}

/// Emits packets at a steady rate. At each timestamp of a grid that starts at the first packet, it
/// emits the packet nearest to it; of two that are equally near, the later one. If packets are
/// further apart than the grid's timestamps, the earlier one is repeated. Input and output have the
/// tag `DATA` or none. The side packet `OPTIONS` replaces all options.
///
/// ```pbtxt
/// input_stream: "frames"
/// output_stream: "steady"
/// node {
///   calculator: "PacketResamplerCalculator"
///   input_stream: "frames"
///   output_stream: "steady"
///   options { [mediapipe.PacketResamplerCalculatorOptions.ext] { frame_rate: 30 } }
/// }
/// ```
pub struct PacketResampler {
    options: PacketResamplerOptions,
    /// First timestamp that may be emitted, and the end: the first one that may not.
    limits: (Timestamp, Timestamp),
    /// Start of the grid; `None` before the first packet.
    first: Option<Timestamp>,
    /// Number of the next timestamp of the grid.
    next: i64,
    last: Option<Packet>,
}

impl Calculator for PacketResampler {
    const NAME: &'static str = "PacketResamplerCalculator";
    const DOC: &'static str = "Emits packets at a steady rate, repeating and dropping as needed.";
    const OPTION_NAMES: &'static [&'static str] = &["mediapipe.PacketResamplerCalculatorOptions"];
    type Options = PacketResamplerOptions;
    type Ports = (
        In<dyn Payload>,
        Out<dyn Payload>,
        Side<PacketResamplerOptions>,
    );

    fn contract(c: &mut Contract, options: &PacketResamplerOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        let given: Side<PacketResamplerOptions> = c.optional_side("OPTIONS");
        if !given.is_connected()
            && let Err(why) = options.check()
        {
            c.error(why);
        }
        let tag = |group: Group, c: &Contract| {
            if c.count(group, "DATA") > 0 {
                "DATA"
            } else {
                ""
            }
        };
        let input = c.any(tag(Group::Inputs, c));
        let output = c.same_as(tag(Group::Outputs, c), input);
        (input, output, given)
    }

    fn open(
        options: &PacketResamplerOptions,
        (.., given): Self::Ports,
        cx: &mut OpenCx<'_>,
    ) -> Result<Self> {
        let options = *cx.side(given).unwrap_or(options);
        options.check().map_err(Error::invalid)?;
        let period = (MICROS / options.frame_rate) as i64;
        let margin = if options.round_limits { period / 2 } else { 0 };
        let start = options.start_time.map_or(Timestamp::MIN, Timestamp::new);
        let end = options.end_time.map_or(Timestamp::MAX, Timestamp::new);
        Ok(Self {
            options,
            limits: (start + -margin, end + margin),
            first: None,
            next: 0,
            last: None,
        })
    }

    fn process(&mut self, (input, output, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let Some(packet) = cx.take_packet(input) else {
            return Ok(Flow::Continue);
        };
        let time = packet.time;
        if time == Timestamp::PRE_STREAM {
            return Err(Error::invalid("a packet at PreStream cannot be resampled"));
        }
        if self.first.is_none() {
            self.first = Some(self.begin(time));
        }
        let number = self.number(time);
        if number >= self.next {
            self.fill(number, output, cx)?;
            let target = self.time(self.next);
            if time >= target {
                let last = self.last.take();
                let earlier = last.filter(|last| target - last.time < time - target);
                let nearest = earlier.unwrap_or_else(|| packet.clone());
                self.emit(nearest, target, output, cx);
                self.next += 1;
            }
            cx.out().bound_at_least(output, self.time(self.next));
        }
        self.last = Some(packet);
        Ok(Flow::Continue)
    }

    fn close(&mut self, (_, output, _): Self::Ports, cx: &mut Cx<'_>) -> Result<()> {
        if let Some(last) = self.last.take().filter(|_| self.options.flush_last_packet)
            && self.number(last.time) == self.next
        {
            self.emit(last, self.time(self.next), output, cx);
        }
        Ok(())
    }
}
register!(PacketResampler);
register_payload!(PacketResamplerOptions as "packet_resampler_options");

impl PacketResampler {
    /// Returns the start of the grid for the first packet's timestamp.
    fn begin(&self, time: Timestamp) -> Timestamp {
        let Some(base) = self.options.base_timestamp.map(Timestamp::new) else {
            return time;
        };
        let periods = ((time - base) as f64 / MICROS * self.options.frame_rate).round();
        base + (periods / self.options.frame_rate * MICROS).round() as i64
    }

    /// Returns the number of the grid's timestamp that is nearest to a time.
    fn number(&self, time: Timestamp) -> i64 {
        let since = time - self.first.unwrap_or(time);
        (since as f64 / MICROS * self.options.frame_rate).round() as i64
    }

    /// Returns the timestamp of the grid with a number.
    fn time(&self, number: i64) -> Timestamp {
        let since = (number as f64 / self.options.frame_rate * MICROS).round() as i64;
        self.first.unwrap_or(Timestamp::ZERO) + since
    }

    /// Repeats the last packet for the timestamps before `number`.
    fn fill(&mut self, number: i64, output: Out<dyn Payload>, cx: &mut Cx<'_>) -> Result<()> {
        let Some(last) = self.last.clone() else {
            return Ok(());
        };
        let gap = number - self.next;
        if gap > MAX_REPEATS {
            return Err(Error::exhausted(format!(
                "from {} to {} a packet would be repeated {gap} times; more than {MAX_REPEATS} are refused",
                last.time,
                self.time(number)
            )));
        }
        while self.next < number {
            self.emit(last.clone(), self.time(self.next), output, cx);
            self.next += 1;
        }
        Ok(())
    }

    /// Emits a packet, if its time is within the limits.
    fn emit(&self, packet: Packet, time: Timestamp, output: Out<dyn Payload>, cx: &mut Cx<'_>) {
        if time >= self.limits.0 && time < self.limits.1 {
            cx.out().emit_packet(output, packet.at(time));
        }
    }
}

#[cfg(test)]
mod tests;
