//! `...VectorIndicesCalculator`: the numbers of a vector's elements.

use std::marker::PhantomData;

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Payload, Result, register,
};

/// Numbers the elements of each vector: a vector of three elements gives the vector 0, 1, 2.
///
/// For your own type: `register!(VectorIndices<Face> as "FaceVectorIndicesCalculator")`.
///
/// ```pbtxt
/// input_stream: "numbers"
/// output_stream: "indices"
/// node {
///   calculator: "IntVectorIndicesCalculator"
///   input_stream: "VECTOR:numbers"
///   output_stream: "INDICES:indices"
/// }
/// ```
pub struct VectorIndices<T>(PhantomData<fn() -> T>);

impl<T: Payload> Calculator for VectorIndices<T> {
    const NAME: &'static str = "VectorIndicesCalculator";
    const DOC: &'static str = "Numbers the elements of each vector.";
    type Options = NoOptions;
    type Ports = (In<Vec<T>>, Out<Vec<i64>>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input("VECTOR"), c.output("INDICES"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(PhantomData))
    }

    fn process(&mut self, (vector, indices): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(items) = cx.get(vector) {
            let numbers: Vec<i64> = (0..items.len() as i64).collect();
            cx.emit(indices, numbers);
        }
        Ok(Flow::Continue)
    }
}
register!(VectorIndices<i64> as "IntVectorIndicesCalculator");
register!(VectorIndices<u64> as "Uint64tVectorIndicesCalculator");
register!(VectorIndices<f64> as "FloatVectorIndicesCalculator");
register!(VectorIndices<String> as "StringVectorIndicesCalculator");

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    #[test]
    fn elements_are_numbered() {
        let mut h = Harness::global(
            r#"node { calculator: "IntVectorIndicesCalculator" input_stream: "VECTOR:v" output_stream: "INDICES:out" }"#,
        );
        h.push("v", 1, vec![7_i64, 8])
            .push("v", 2, Vec::<i64>::new());
        h.expect("out", [(1, vec![0_i64, 1]), (2, vec![])]).finish();
    }
}
