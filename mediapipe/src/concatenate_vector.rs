//! `Concatenate...VectorCalculator`: one vector of several.

use std::{any::Any, marker::PhantomData};

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, Ins, OpenCx, Out, Packet, Payload, Result, TypeInfo,
    register,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of a `Concatenate...VectorCalculator` node.
#[derive(Copy, Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConcatenateVectorOptions {
    /// Emits nothing at a timestamp at which an input has no packet. By default that input is left
    /// out.
    pub only_emit_if_all_present: bool,
}

/// Maximum size of a joined vector, in bytes: a chain of nodes can double it at each step.
const MAX_BYTES: usize = 64 << 20;

/// Joins the inputs of a timestamp, in their order, into one vector. An input carries vectors or
/// single elements. A vector of more than 64 MiB is an error.
///
/// Integers are 64 bits wide and floats are doubles, whatever the name says. For your own type:
/// `register!(ConcatenateVector<Face> as "ConcatenateFaceVectorCalculator")`.
///
/// ```pbtxt
/// input_stream: "numbers"
/// input_stream: "more_numbers"
/// output_stream: "all_numbers"
/// node {
///   calculator: "ConcatenateFloatVectorCalculator"
///   input_stream: "numbers"
///   input_stream: "more_numbers"
///   output_stream: "all_numbers"
///   options { [mediapipe.ConcatenateVectorCalculatorOptions.ext] { only_emit_if_all_present: true } }
/// }
/// ```
pub struct ConcatenateVector<T> {
    all: bool,
    of: PhantomData<fn() -> T>,
}

impl<T: Payload + Clone> Calculator for ConcatenateVector<T> {
    const NAME: &'static str = "ConcatenateVectorCalculator";
    const DOC: &'static str = "Joins vectors and single elements to one vector.";
    const OPTION_NAMES: &'static [&'static str] = &["mediapipe.ConcatenateVectorCalculatorOptions"];
    type Options = ConcatenateVectorOptions;
    type Ports = (Ins<dyn Payload>, Out<Vec<T>>);

    fn contract(c: &mut Contract, _: &ConcatenateVectorOptions) -> Self::Ports {
        let types = [TypeInfo::new::<T>(), TypeInfo::new::<Vec<T>>()];
        (c.inputs_one_of("", &types), c.output(""))
    }

    fn open(
        options: &ConcatenateVectorOptions,
        _: Self::Ports,
        _: &mut OpenCx<'_>,
    ) -> Result<Self> {
        Ok(Self {
            all: options.only_emit_if_all_present,
            of: PhantomData,
        })
    }

    fn process(&mut self, (inputs, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let packets: Vec<Packet> = inputs
            .iter()
            .filter_map(|input| cx.take_packet(input))
            .collect();
        if self.all && packets.len() < inputs.len() {
            return Ok(Flow::Continue);
        }
        let bytes: usize = packets.iter().map(bytes_of::<T>).sum();
        if bytes > MAX_BYTES {
            return Err(Error::exhausted(format!(
                "the joined vector would have {bytes} bytes, more than {MAX_BYTES}"
            )));
        }
        let mut joined: Vec<T> = Vec::new();
        for packet in packets {
            if packet.is::<T>() {
                joined.extend(packet.into_value::<T>());
            } else {
                joined.extend(packet.into_value::<Vec<T>>().unwrap_or_default());
            }
        }
        cx.emit(output, joined);
        Ok(Flow::Continue)
    }
}

/// Returns the size of an element or a vector, with the text of strings.
fn bytes_of<T: Payload>(packet: &Packet) -> usize {
    let of_one = |value: &T| {
        let text = (value as &dyn Any).downcast_ref::<String>();
        size_of::<T>() + text.map_or(0, String::len)
    };
    let values = packet.get::<Vec<T>>();
    values.map_or_else(
        || packet.get::<T>().map_or(0, of_one),
        |values| values.iter().map(of_one).sum(),
    )
}

register!(ConcatenateVector<i64> as "ConcatenateInt32VectorCalculator");
register!(ConcatenateVector<u64> as "ConcatenateUInt64VectorCalculator");
register!(ConcatenateVector<f64> as "ConcatenateFloatVectorCalculator");
register!(ConcatenateVector<bool> as "ConcatenateBoolVectorCalculator");
register!(ConcatenateVector<String> as "ConcatenateStringVectorCalculator");

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    fn harness(options: &str) -> Harness {
        Harness::global(&format!(
            r#"node {{ calculator: "ConcatenateInt32VectorCalculator" input_stream: "a" input_stream: "b" output_stream: "out"
               options {{ [mediapipe.ConcatenateVectorCalculatorOptions.ext] {{ {options} }} }} }}"#
        ))
    }

    #[test]
    fn vectors_and_elements_in_the_order_of_the_inputs() {
        let mut h = harness("");
        h.push("b", 1, vec![2_i64, 3]).push("a", 1, 1_i64);
        h.push("a", 2, vec![4_i64]).bound("b", 3);
        h.push("a", 3, Vec::<i64>::new()).push("b", 3, 5_i64);
        h.expect("out", [(1, vec![1_i64, 2, 3]), (2, vec![4]), (3, vec![5])]);
        h.finish();
    }

    #[test]
    fn a_vector_does_not_grow_beyond_its_limit() {
        let nodes: Vec<String> = (0..40)
            .map(|at| {
                format!(
                    "node {{ calculator: \"ConcatenateStringVectorCalculator\" input_stream: \"v{at}\" input_stream: \"v{at}\" output_stream: \"v{}\" }}\n",
                    at + 1
                )
            })
            .collect();
        let mut h = Harness::global(&nodes.concat());
        h.push("v0", 1, vec!["a".repeat(1 << 20)]);
        let error = h.error();
        assert!(error.message.contains("more than 67108864"), "{error}");
    }

    #[test]
    fn all_inputs_can_be_asked_for() {
        let mut h = harness("only_emit_if_all_present: true");
        h.push("a", 1, 1_i64).bound("b", 2).expect_nothing("out");
        h.push("a", 2, 1_i64).push("b", 2, 2_i64);
        h.expect("out", [(2, vec![1_i64, 2])]);
        h.finish();
    }
}
