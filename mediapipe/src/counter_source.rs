//! `CounterSourceCalculator`: a source of numbers that its options describe.

use graphmill_engine::{Calculator, Contract, Cx, Flow, OpenCx, Out, Result, Timestamp, register};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of a `CounterSourceCalculator` node.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CounterSourceOptions {
    /// Number of numbers to emit. By default they go on until the graph stops its sources.
    pub count: Option<u64>,
    /// First number. Default: 0.
    pub start: i64,
    /// Distance between two numbers. Default: 1.
    pub step: i64,
    /// Timestamp of the first number, in microseconds. Default: 0.
    pub start_time: i64,
    /// Distance between two timestamps, in microseconds; at least 1, which is the default.
    pub period: i64,
}

impl Default for CounterSourceOptions {
    fn default() -> Self {
        Self {
            count: None,
            start: 0,
            step: 1,
            start_time: 0,
            period: 1,
        }
    }
}

/// A source of numbers at regular timestamps: 0, 1, 2, ... at timestamps 0, 1, 2, ... unless its
/// options say otherwise. The numbers come as fast as the graph takes them.
///
/// ```pbtxt
/// output_stream: "numbers"
/// node {
///   calculator: "CounterSourceCalculator"
///   output_stream: "numbers"
///   options {
///     [graphmill.CounterSourceCalculatorOptions.ext] { count: 100 period: 40000 }
///   }
/// }
/// ```
pub struct CounterSource {
    /// The numbers that are still to be emitted.
    rest: CounterSourceOptions,
}

impl Calculator for CounterSource {
    const NAME: &'static str = "CounterSourceCalculator";
    const DOC: &'static str = "Makes numbers at regular timestamps.";
    type Options = CounterSourceOptions;
    type Ports = Out<i64>;

    fn contract(c: &mut Contract, options: &CounterSourceOptions) -> Out<i64> {
        if options.period < 1 {
            c.error(format!(
                "`period` has to be at least 1, but is {}",
                options.period
            ));
        }
        c.output("")
    }

    fn open(options: &CounterSourceOptions, _: Out<i64>, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            rest: options.clone(),
        })
    }

    fn process(&mut self, numbers: Out<i64>, cx: &mut Cx<'_>) -> Result<Flow> {
        let rest = &mut self.rest;
        if rest.count == Some(0) {
            return Ok(Flow::Stop);
        }
        let time = Timestamp::new(rest.start_time);
        cx.emit_at(numbers, time, rest.start);
        rest.count = rest.count.map(|left| left - 1);
        rest.start = rest.start.wrapping_add(rest.step);
        rest.start_time = (time + rest.period).value();
        let last = time == Timestamp::MAX;
        Ok(if last { Flow::Stop } else { Flow::Continue })
    }
}
register!(CounterSource);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::CounterSource;

    fn source(options: &str) -> Harness {
        Harness::for_calculator::<CounterSource>(&format!(
            r#"node {{ calculator: "CounterSourceCalculator" output_stream: "out"
                 options {{ [graphmill.CounterSourceCalculatorOptions.ext] {{ {options} }} }} }}"#
        ))
    }

    #[test]
    fn it_counts() {
        let mut h = source("count: 3");
        h.start().expect("out", [(0, 0_i64), (1, 1), (2, 2)]);
        assert!(h.ended());
    }

    #[test]
    fn from_anywhere_by_any_step_at_any_pace() {
        let mut h = source("count: 3 start: 5 step: -2 start_time: 100 period: 10");
        h.start().expect("out", [(100, 5_i64), (110, 3), (120, 1)]);
    }

    #[test]
    fn it_ends_with_the_time_line() {
        let mut h = source("start_time: 9223372036854775803");
        h.start();
        assert!(h.ended());
        assert_eq!(h.packets("out").len(), 2);
    }
}
