//! `Split...VectorCalculator`: parts of a vector.

use std::{marker::PhantomData, ops::Range};

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, Group, In, OpenCx, OutSides, Outs, Packet, Payload,
    Result, Side, Timestamp, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of a `Split...VectorCalculator` node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SplitVectorOptions {
    /// The parts: one for each output, or those that are joined with `combine_outputs`.
    pub ranges: Vec<Part>,
    /// Emits the one element of each range instead of a vector of it. Default: false.
    pub element_only: bool,
    /// Joins all parts, one after the other, for the only output. Default: false.
    pub combine_outputs: bool,
}

/// A range of elements of a vector.
#[derive(Copy, Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Part {
    /// Number of the first element, counted from 0.
    pub begin: i32,
    /// Number of the element after the last.
    pub end: i32,
}

/// Takes vectors apart. Each output gets its range, as a vector or, with `element_only`, as the
/// element itself; or one output gets all ranges, joined. A vector that is too short for a range is
/// an error. The vector may also be an input side packet; the outputs are then output side packets.
///
/// Integers are 64 bits wide and floats are doubles, whatever the name says. For your own type:
/// `register!(SplitVector<Face> as "SplitFaceVectorCalculator")`.
///
/// ```pbtxt
/// input_stream: "numbers"
/// output_stream: "first_two"
/// output_stream: "rest"
/// node {
///   calculator: "SplitFloatVectorCalculator"
///   input_stream: "numbers"
///   output_stream: "first_two"
///   output_stream: "rest"
///   options {
///     [mediapipe.SplitVectorCalculatorOptions.ext] { ranges { begin: 0 end: 2 } ranges { begin: 2 end: 5 } }
///   }
/// }
/// ```
pub struct SplitVector<T> {
    options: SplitVectorOptions,
    of: PhantomData<fn() -> T>,
}

impl<T: Payload + Clone> Calculator for SplitVector<T> {
    const NAME: &'static str = "SplitVectorCalculator";
    const DOC: &'static str = "Takes vectors apart into ranges or elements.";
    const OPTION_NAMES: &'static [&'static str] = &["mediapipe.SplitVectorCalculatorOptions"];
    type Options = SplitVectorOptions;
    type Ports = (
        (In<Vec<T>>, Outs<dyn Payload>),
        (Side<Vec<T>>, OutSides<dyn Payload>),
    );

    fn contract(c: &mut Contract, options: &SplitVectorOptions) -> Self::Ports {
        if let Some(problem) = options.problem() {
            c.error(problem);
        }
        let by_side = c.count(Group::InputSides, "") > 0;
        let (group, vector, side_vector) = if by_side {
            (Group::OutputSides, c.optional(""), c.side(""))
        } else {
            (Group::Outputs, c.input(""), c.optional_side(""))
        };
        let (parts, side_parts) = (c.optional_outputs(""), c.optional_output_sides(""));
        if vector.is_connected() == side_vector.is_connected() {
            c.error("connect the vector either as a stream or as a side packet");
        }
        let outputs = c.count(group, "");
        if options.combine_outputs && outputs != 1 {
            c.error(format!(
                "`combine_outputs` needs exactly one output, but {outputs} are connected"
            ));
        } else if !options.combine_outputs && outputs != options.ranges.len() {
            c.error(format!(
                "each of the {} `ranges` needs an output, but {outputs} are connected",
                options.ranges.len()
            ));
        }
        for index in 0..outputs {
            let port = format!(":{index}");
            match (by_side, options.element_only && !options.combine_outputs) {
                (false, false) => _ = c.output::<Vec<T>>(&port),
                (false, true) => _ = c.output::<T>(&port),
                (true, false) => _ = c.output_side::<Vec<T>>(&port),
                (true, true) => _ = c.output_side::<T>(&port),
            }
        }
        ((vector, parts), (side_vector, side_parts))
    }

    fn open(
        options: &SplitVectorOptions,
        (_, (vector, parts)): Self::Ports,
        cx: &mut OpenCx<'_>,
    ) -> Result<Self> {
        if let Some(vector) = cx.side(vector) {
            let packets = options.split(vector, Timestamp::UNSET)?;
            for (output, packet) in parts.iter().zip(packets) {
                cx.out().side_packet(output, packet);
            }
        }
        Ok(Self {
            options: options.clone(),
            of: PhantomData,
        })
    }

    fn process(&mut self, ((vector, parts), _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(vector) = cx.get(vector) {
            let packets = self.options.split(vector, cx.time())?;
            for (output, packet) in parts.iter().zip(packets) {
                cx.out().emit_packet(output, packet);
            }
        }
        Ok(Flow::Continue)
    }
}
register!(SplitVector<i64> as "SplitInt32VectorCalculator");
register!(SplitVector<u64> as "SplitUint64tVectorCalculator");
register!(SplitVector<f64> as "SplitFloatVectorCalculator");
register!(SplitVector<bool> as "SplitBoolVectorCalculator");
register!(SplitVector<String> as "SplitStringVectorCalculator");

impl Part {
    fn range(self) -> Range<usize> {
        let [begin, end] = [self.begin, self.end].map(|at| usize::try_from(at).unwrap_or(0));
        begin..end
    }
}

impl SplitVectorOptions {
    /// Returns an error for options that contradict each other, if any do.
    fn problem(&self) -> Option<String> {
        let shown = |part: &Part| format!("{}..{}", part.begin, part.end);
        for (index, part) in self.ranges.iter().enumerate() {
            if part.begin < 0 || part.end <= part.begin {
                return Some(format!(
                    "range {} must begin at 0 or later, and before its end",
                    shown(part)
                ));
            }
            if self.element_only && part.end - part.begin != 1 {
                return Some(format!(
                    "with `element_only` each range must be one element, but {} is not",
                    shown(part)
                ));
            }
            let overlaps = |other: &&Part| other.begin < part.end && part.begin < other.end;
            if self.combine_outputs
                && let Some(other) = self.ranges[..index].iter().find(overlaps)
            {
                return Some(format!(
                    "with `combine_outputs` ranges must not overlap, but {} and {} do",
                    shown(other),
                    shown(part)
                ));
            }
        }
        None
    }

    /// Returns the packet of each output for a vector. Fails if the vector is too short.
    fn split<T: Payload + Clone>(&self, vector: &[T], time: Timestamp) -> Result<Vec<Packet>> {
        let ranges = || self.ranges.iter().map(|part| part.range());
        let least = ranges().map(|range| range.end).max().unwrap_or(0);
        if vector.len() < least {
            return Err(Error::invalid(format!(
                "a vector of {} elements is too short for a range that ends at {least}",
                vector.len()
            )));
        }
        let slices = ranges().map(|range| &vector[range]);
        Ok(if self.combine_outputs {
            let joined: Vec<T> = slices.flatten().cloned().collect();
            vec![Packet::new(time, joined)]
        } else if self.element_only {
            let elements = slices.flatten().cloned();
            elements.map(|element| Packet::new(time, element)).collect()
        } else {
            let vectors = slices.map(<[T]>::to_vec);
            vectors.map(|vector| Packet::new(time, vector)).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use graphmill_engine::{
        Environment, Registry,
        testing::{Harness, check},
    };

    fn graph(ports: &str, options: &str) -> String {
        format!(
            r#"node {{ calculator: "SplitInt32VectorCalculator" {ports}
               options {{ [mediapipe.SplitVectorCalculatorOptions.ext] {{ {options} }} }} }}"#
        )
    }

    const TWO: &str = r#"input_stream: "v" output_stream: "a" output_stream: "b""#;
    const ONE: &str = r#"input_stream: "v" output_stream: "a""#;

    #[test]
    fn ranges_elements_and_all_in_one() {
        let numbers = || vec![10_i64, 11, 12, 13];
        let ranges = "ranges { begin: 2 end: 4 } ranges { begin: 0 end: 1 }";
        let mut h = Harness::global(&graph(TWO, ranges));
        h.push("v", 1, numbers());
        h.expect("a", [(1, vec![12_i64, 13])])
            .expect("b", [(1, vec![10_i64])]);
        let mut h = Harness::global(&graph(ONE, &format!("{ranges} combine_outputs: true")));
        h.push("v", 1, numbers());
        h.expect("a", [(1, vec![12_i64, 13, 10])]);
        let elements = "ranges { begin: 3 end: 4 } ranges { end: 1 } element_only: true";
        let mut h = Harness::global(&graph(TWO, elements));
        h.push("v", 1, numbers());
        h.expect("a", [(1, 13_i64)]).expect("b", [(1, 10_i64)]);
    }

    #[test]
    fn a_side_packet_is_split_into_side_packets() {
        let ports = r#"input_side_packet: "v" output_side_packet: "a" output_side_packet: "b""#;
        let ranges = "ranges { begin: 0 end: 1 } ranges { begin: 1 end: 3 }";
        let mut h = Harness::global(&graph(ports, ranges)).side("v", vec![1_i64, 2, 3]);
        let side = |h: &mut Harness, name: &str| {
            let packet = h
                .handle()
                .side_packet(name)
                .expect("a side packet of the graph");
            packet.and_then(|packet| packet.get::<Vec<i64>>().cloned())
        };
        assert_eq!(side(&mut h, "a"), Some(vec![1]));
        assert_eq!(side(&mut h, "b"), Some(vec![2, 3]));
    }

    #[test]
    fn a_vector_that_is_too_short_is_an_error() {
        let mut h = Harness::global(&graph(ONE, "ranges { begin: 1 end: 3 }"));
        h.push("v", 1, vec![1_i64, 2]);
        assert_eq!(
            h.error().message,
            "a vector of 2 elements is too short for a range that ends at 3"
        );
    }

    #[test]
    fn ranges_that_make_no_sense_are_refused() {
        for (ports, options, message) in [
            (
                TWO,
                "ranges { begin: 0 end: 1 }",
                "each of the 1 `ranges` needs an output, but 2 are",
            ),
            (
                ONE,
                "ranges { begin: 1 end: 1 }",
                "range 1..1 must begin at 0 or later",
            ),
            (
                ONE,
                "ranges { begin: -1 end: 1 }",
                "range -1..1 must begin at 0 or later",
            ),
            (
                ONE,
                "ranges { begin: 0 end: 2 } element_only: true",
                "0..2 is not",
            ),
            (
                ONE,
                "ranges { begin: 0 end: 2 } ranges { begin: 1 end: 3 } combine_outputs: true",
                "0..2 and 1..3 do",
            ),
            (
                TWO,
                "ranges { begin: 0 end: 2 } combine_outputs: true",
                "needs exactly one output",
            ),
        ] {
            let found = check(
                &graph(ports, options),
                &Environment::new(Registry::global()),
            );
            assert!(found.contains(message), "{options}:\n{found}");
        }
    }
}
