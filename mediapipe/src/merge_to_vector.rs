//! `Merge...sToVectorCalculator`: the packets of several streams, as one vector.

use std::marker::PhantomData;

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, Ins, NoOptions, OpenCx, Out, Payload, Result, register,
};

/// Collects the packets that its inputs have at a timestamp, in their order, in one vector. Inputs
/// without a packet are left out.
///
/// For your own type: `register!(MergeToVector<Face> as "MergeFacesToVectorCalculator")`.
///
/// ```pbtxt
/// input_stream: "left"
/// input_stream: "right"
/// output_stream: "both"
/// node {
///   calculator: "MergeIntsToVectorCalculator"
///   input_stream: "left"
///   input_stream: "right"
///   output_stream: "both"
/// }
/// ```
pub struct MergeToVector<T>(PhantomData<fn() -> T>);

impl<T: Payload + Clone> Calculator for MergeToVector<T> {
    const NAME: &'static str = "MergeToVectorCalculator";
    const DOC: &'static str = "Collects packets of several streams at a timestamp in one vector.";
    type Options = NoOptions;
    type Ports = (Ins<T>, Out<Vec<T>>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.inputs(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(PhantomData))
    }

    fn process(&mut self, (inputs, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let merged: Vec<T> = inputs.iter().filter_map(|input| cx.take(input)).collect();
        cx.emit(output, merged);
        Ok(Flow::Continue)
    }
}
register!(MergeToVector<i64> as "MergeIntsToVectorCalculator");
register!(MergeToVector<f64> as "MergeFloatsToVectorCalculator");
register!(MergeToVector<bool> as "MergeBoolsToVectorCalculator");
register!(MergeToVector<String> as "MergeStringsToVectorCalculator");

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    #[test]
    fn what_is_there_in_the_order_of_the_inputs() {
        let mut h = Harness::global(
            r#"node { calculator: "MergeIntsToVectorCalculator" input_stream: "a" input_stream: "b" output_stream: "out" }"#,
        );
        h.push("b", 1, 2_i64).push("a", 1, 1_i64);
        h.push("b", 2, 3_i64).bound("a", 3);
        h.expect("out", [(1, vec![1_i64, 2]), (2, vec![3])]);
        h.finish();
    }
}
