//! `CountingSourceCalculator`: a source of numbers that side packets describe.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, NoOptions, OpenCx, Out, Result, Side, Timestamp,
    register,
};

/// A source of numbers whose timestamps are the numbers themselves. It makes `MAX_COUNT` batches of
/// `BATCH_SIZE` (default 1) numbers each, starting at `INITIAL_VALUE` (default 0) and `INCREMENT`
/// (default 1) apart. With `ERROR_COUNT` it fails after that many batches, with `ERROR_ON_OPEN`
/// before the first. At least one of `MAX_COUNT` and `ERROR_COUNT` must be given. Mainly for tests.
/// To set options instead of side packets, use `CounterSourceCalculator`.
///
/// ```pbtxt
/// input_side_packet: "how_many"
/// output_stream: "numbers"
/// node {
///   calculator: "CountingSourceCalculator"
///   input_side_packet: "MAX_COUNT:how_many"
///   output_stream: "numbers"
/// }
/// ```
pub struct CountingSource {
    max_batches: Option<i64>,
    error_after: Option<i64>,
    batch_size: i64,
    increment: i64,
    /// The number to emit next.
    next: i64,
    /// Number of batches made so far.
    batches: i64,
}

/// The port handles of [`CountingSource`].
#[derive(Copy, Clone, Debug)]
pub struct Ports {
    numbers: Out<i64>,
    max_count: Side<i64>,
    error_count: Side<i64>,
    batch_size: Side<i64>,
    initial_value: Side<i64>,
    increment: Side<i64>,
    error_on_open: Side<bool>,
}

impl Calculator for CountingSource {
    const NAME: &'static str = "CountingSourceCalculator";
    const DOC: &'static str = "Makes a number of batches given by a side packet, for tests.";
    type Options = NoOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, _: &NoOptions) -> Ports {
        let ports = Ports {
            numbers: c.output(""),
            max_count: c.optional_side("MAX_COUNT"),
            error_count: c.optional_side("ERROR_COUNT"),
            batch_size: c.optional_side("BATCH_SIZE"),
            initial_value: c.optional_side("INITIAL_VALUE"),
            increment: c.optional_side("INCREMENT"),
            error_on_open: c.optional_side("ERROR_ON_OPEN"),
        };
        if !ports.max_count.is_connected() && !ports.error_count.is_connected() {
            c.error("`MAX_COUNT` or `ERROR_COUNT` must be connected, to end the numbers");
        }
        ports
    }

    fn open(_: &NoOptions, io: Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        if cx.side(io.error_on_open) == Some(&true) {
            return Err(Error::not_found("`ERROR_ON_OPEN` asks for this error"));
        }
        let at_least = |name: &str, least: i64, value: Option<i64>| match value {
            Some(value) if value < least => Err(Error::invalid(format!(
                "`{name}` has to be at least {least}, but is {value}"
            ))),
            value => Ok(value),
        };
        let value = |side: Side<i64>| cx.side(side).copied();
        Ok(Self {
            max_batches: at_least("MAX_COUNT", 0, value(io.max_count))?,
            error_after: at_least("ERROR_COUNT", 0, value(io.error_count))?,
            batch_size: at_least("BATCH_SIZE", 1, value(io.batch_size))?.unwrap_or(1),
            increment: at_least("INCREMENT", 1, value(io.increment))?.unwrap_or(1),
            next: value(io.initial_value).unwrap_or(0),
            batches: 0,
        })
    }

    fn process(&mut self, io: Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if self.error_after.is_some_and(|after| self.batches >= after) {
            return Err(Error::internal("`ERROR_COUNT` asks for this error"));
        }
        if self.max_batches.is_none_or(|most| self.batches < most) {
            for _ in 0..self.batch_size {
                cx.emit_at(io.numbers, Timestamp::new(self.next), self.next);
                self.next = self.next.saturating_add(self.increment);
            }
            self.batches += 1;
            Ok(Flow::Continue)
        } else {
            Ok(Flow::Stop)
        }
    }
}
register!(CountingSource);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::CountingSource;

    fn source(sides: &[(&str, i64)]) -> Harness {
        let ports: Vec<String> = sides
            .iter()
            .map(|(tag, _)| format!("input_side_packet: \"{tag}:{}\"", tag.to_lowercase()))
            .collect();
        let ports = ports.join(" ");
        let graph = format!(
            r#"node {{ calculator: "CountingSourceCalculator" {ports} output_stream: "out" }}"#
        );
        let empty = Harness::for_calculator::<CountingSource>(&graph);
        sides.iter().fold(empty, |harness, (tag, value)| {
            harness.side(&tag.to_lowercase(), *value)
        })
    }

    #[test]
    fn it_counts() {
        let mut h = source(&[("MAX_COUNT", 3)]);
        h.start().expect("out", [(0, 0_i64), (1, 1), (2, 2)]);
        assert!(h.ended());
    }

    #[test]
    fn in_batches_from_anywhere_by_any_step() {
        let sides = [
            ("MAX_COUNT", 2),
            ("BATCH_SIZE", 2),
            ("INITIAL_VALUE", -5),
            ("INCREMENT", 10),
        ];
        let mut h = source(&sides);
        h.start()
            .expect("out", [(-5, -5_i64), (5, 5), (15, 15), (25, 25)]);
    }

    #[test]
    fn it_fails_when_asked_to() {
        let mut h = source(&[("ERROR_COUNT", 2)]);
        let error = h.start().error();
        assert!(error.message.contains("ERROR_COUNT"));
        h.expect("out", [(0, 0_i64), (1, 1)]);
    }

    #[test]
    fn wrong_numbers_are_refused() {
        let error = source(&[("MAX_COUNT", 2), ("INCREMENT", 0)])
            .start()
            .error();
        assert!(error.message.contains("`INCREMENT` has to be at least 1"));
    }
}
