//! `PacketThinnerCalculator`: fewer packets of a stream.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, Offset, OpenCx, Out, Packet, Payload, Result, Side,
    Timestamp, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Rule by which packets are chosen.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ThinnerType {
    /// Lets a packet pass, and then none for a period.
    #[default]
    Async,
    /// Lets the packet nearest to each multiple of the period pass.
    Sync,
}

/// Options of a `PacketThinnerCalculator` node. Times are in the units of timestamps, microseconds
/// by convention.
#[derive(Copy, Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PacketThinnerOptions {
    /// Rule by which packets are chosen. Default: `ASYNC`.
    pub thinner_type: ThinnerType,
    /// Length of the time in which at most one packet passes; above 0. Default: 1.
    pub period: i64,
    /// Start: packets before this time are dropped. `SYNC` counts its periods from here. Default: 0
    /// with `SYNC`, no start with `ASYNC`.
    pub start_time: Option<i64>,
    /// End: packets at this time and later are dropped. It must be after `start_time`.
    pub end_time: Option<i64>,
    /// Gives a packet that `SYNC` chooses the timestamp of its period's center. Otherwise the
    /// packet keeps its own.
    pub sync_output_timestamps: bool,
    /// Adapts a header with a frame rate. It has no effect, because streams have no headers here.
    pub update_frame_rate: bool,
}

impl Default for PacketThinnerOptions {
    fn default() -> Self {
        Self {
            thinner_type: ThinnerType::Async,
            period: 1,
            start_time: None,
            end_time: None,
            sync_output_timestamps: true,
            update_frame_rate: false,
        }
    }
}

impl PacketThinnerOptions {
    fn start(&self) -> Timestamp {
        let default = match self.thinner_type {
            ThinnerType::Async => Timestamp::MIN,
            ThinnerType::Sync => Timestamp::ZERO,
        };
        self.start_time.map_or(default, Timestamp::new)
    }

    fn end(&self) -> Timestamp {
        self.end_time.map_or(Timestamp::MAX, Timestamp::new)
    }
}

/// Lets at most one packet a period through. `ASYNC` lets a packet pass and then none for a period.
/// `SYNC` divides time into periods with the centers `start_time + i * period`. In each period it
/// lets the packet nearest to the center pass; of two that are equally near, the later one. The
/// side packet `PERIOD` overrides the option.
///
/// ```pbtxt
/// input_stream: "frames"
/// output_stream: "ten_a_second"
/// node {
///   calculator: "PacketThinnerCalculator"
///   input_stream: "frames"
///   output_stream: "ten_a_second"
///   options { [mediapipe.PacketThinnerCalculatorOptions.ext] { thinner_type: SYNC period: 100000 } }
/// }
/// ```
pub struct PacketThinner {
    options: PacketThinnerOptions,
    period: i64,
    /// The first timestamp that may pass, with `ASYNC`.
    next: Timestamp,
    /// The best packet of the period so far, with `SYNC`.
    best: Option<Packet>,
}

impl Calculator for PacketThinner {
    const NAME: &'static str = "PacketThinnerCalculator";
    const DOC: &'static str = "Lets at most one packet a period through.";
    const OPTION_NAMES: &'static [&'static str] = &["mediapipe.PacketThinnerCalculatorOptions"];
    type Options = PacketThinnerOptions;
    type Ports = (In<dyn Payload>, Out<dyn Payload>, Side<i64>);

    fn contract(c: &mut Contract, options: &PacketThinnerOptions) -> Self::Ports {
        if options.thinner_type == ThinnerType::Sync {
            c.offset(Offset::Unset);
        }
        let input = c.any("");
        let period: Side<i64> = c.optional_side("PERIOD");
        if !period.is_connected() && options.period <= 0 {
            c.error("`period` has to be above 0");
        }
        if options.start() >= options.end() {
            c.error("`start_time` has to be before `end_time`");
        }
        (input, c.same_as("", input), period)
    }

    fn open(
        options: &PacketThinnerOptions,
        (_, output, period): Self::Ports,
        cx: &mut OpenCx<'_>,
    ) -> Result<Self> {
        let period = cx.side(period).copied().unwrap_or(options.period);
        if period <= 0 {
            return Err(Error::invalid(format!(
                "the period of a thinner has to be above 0, but is {period}"
            )));
        }
        cx.out().bound_at_least(output, options.start());
        Ok(Self {
            options: *options,
            period,
            next: options.start(),
            best: None,
        })
    }

    fn process(&mut self, (input, output, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let Some(packet) = cx.take_packet(input) else {
            return Ok(Flow::Continue);
        };
        if packet.time >= self.options.end() {
            self.flush(output, cx);
            cx.out().close(output);
        } else if packet.time >= self.options.start() {
            match self.options.thinner_type {
                ThinnerType::Async => self.pass(packet, output, cx),
                ThinnerType::Sync => self.choose(packet, output, cx),
            }
        }
        Ok(Flow::Continue)
    }

    fn close(&mut self, (_, output, _): Self::Ports, cx: &mut Cx<'_>) -> Result<()> {
        self.flush(output, cx);
        Ok(())
    }
}
register!(PacketThinner);

impl PacketThinner {
    /// `ASYNC`: passes a packet unless the last one is too near.
    fn pass(&mut self, packet: Packet, output: Out<dyn Payload>, cx: &mut Cx<'_>) {
        if packet.time < self.next {
            return;
        }
        self.next = packet.time + self.period;
        cx.out().emit_packet(output, packet);
        cx.out().bound_at_least(output, self.next);
    }

    /// `SYNC`: keeps the packet, if it is the best of its period, and passes the best one of a
    /// period that is over.
    fn choose(&mut self, packet: Packet, output: Out<dyn Payload>, cx: &mut Cx<'_>) {
        let center = self.center(packet.time);
        if let Some(best) = &self.best
            && self.center(best.time) == center
        {
            if (packet.time - center).abs() <= (best.time - center).abs() {
                self.best = Some(packet);
            }
            return;
        }
        self.flush(output, cx);
        let bound = self.time_of(&packet);
        cx.out().bound_at_least(output, bound);
        self.best = Some(packet);
    }

    fn flush(&mut self, output: Out<dyn Payload>, cx: &mut Cx<'_>) {
        if let Some(best) = self.best.take() {
            let time = self.time_of(&best);
            cx.out().emit_packet(output, best.at(time));
        }
    }

    /// `SYNC`: returns the timestamp with which a packet passes.
    fn time_of(&self, packet: &Packet) -> Timestamp {
        if self.options.sync_output_timestamps {
            self.center(packet.time)
        } else {
            packet.time
        }
    }

    /// Returns the center of the period that contains a time.
    fn center(&self, time: Timestamp) -> Timestamp {
        let start = i128::from(self.options.start().value());
        let period = i128::from(self.period);
        let periods = (i128::from(time.value()) - start + period / 2) / period;
        let center = i64::try_from(start + periods * period);
        Timestamp::new(center.unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use graphmill_engine::{
        Environment, Registry, Timestamp,
        testing::{Harness, check},
    };

    fn graph(options: &str, more: &str) -> String {
        format!(
            r#"node {{ calculator: "PacketThinnerCalculator" input_stream: "in" output_stream: "out" {more}
               options {{ [mediapipe.PacketThinnerCalculatorOptions.ext] {{ {options} }} }} }}"#
        )
    }

    /// The timestamps that come out, with those the packets came in at.
    fn thinned(options: &str, times: &[i64]) -> Vec<(i64, i64)> {
        let mut harness = Harness::global(&graph(options, ""));
        for time in times {
            harness.push("in", *time, *time);
        }
        harness.finish();
        let packets = harness.packets("out");
        packets
            .iter()
            .map(|packet| (packet.time.value(), *packet.get().expect("an integer")))
            .collect()
    }

    #[test]
    fn async_leaves_a_period_after_each_packet() {
        assert_eq!(
            thinned("period: 5", &[2, 4, 6, 7, 11, 12, 30]),
            [(2, 2), (7, 7), (12, 12), (30, 30)]
        );
        let limited = "period: 5 start_time: 4 end_time: 12";
        assert_eq!(
            thinned(limited, &[2, 4, 6, 8, 10, 12, 14]),
            [(4, 4), (10, 10)]
        );
    }

    #[test]
    fn async_settles_what_cannot_pass() {
        let mut harness = Harness::global(&graph("period: 5 start_time: 3", ""));
        harness.start();
        assert_eq!(harness.bounds("out"), [Timestamp::new(2)]);
        harness.push("in", 10, 1);
        assert_eq!(harness.bounds("out").last(), Some(&Timestamp::new(14)));
    }

    #[test]
    fn sync_takes_the_packet_nearest_to_each_center() {
        let times = [-3, 2, 4, 8, 9, 11, 14, 16, 25];
        // Of 9 and 11, both 1 from 10, the later one.
        assert_eq!(
            thinned("thinner_type: SYNC period: 10", &times),
            [(0, 2), (10, 11), (20, 16), (30, 25)]
        );
        let own = "thinner_type: SYNC period: 10 sync_output_timestamps: false";
        assert_eq!(thinned(own, &times), [(2, 2), (11, 11), (16, 16), (25, 25)]);
        let limited = "thinner_type: SYNC period: 10 start_time: 4 end_time: 20";
        assert_eq!(thinned(limited, &times), [(4, 4), (14, 14)]);
    }

    #[test]
    fn a_side_packet_overrides_the_period() {
        let side = graph("period: 1", r#"input_side_packet: "PERIOD:p""#);
        let mut harness = Harness::global(&side).side("p", 10_i64);
        harness.push("in", 1, 1).push("in", 5, 5).push("in", 11, 11);
        harness.expect("out", [(1, 1), (11, 11)]);
        let mut harness = Harness::global(&side).side("p", 0_i64);
        assert_eq!(
            harness.error().message,
            "the period of a thinner has to be above 0, but is 0"
        );
    }

    #[test]
    fn times_that_make_no_sense_are_refused() {
        for (options, message) in [
            ("period: 0", "`period` has to be above 0"),
            ("start_time: 5 end_time: 5", "before `end_time`"),
        ] {
            let found = check(&graph(options, ""), &Environment::new(Registry::global()));
            assert!(found.contains(message), "{options}:\n{found}");
        }
    }
}
