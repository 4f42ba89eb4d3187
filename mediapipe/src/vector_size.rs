//! `...VectorSizeCalculator`: the number of elements of a vector.

use std::marker::PhantomData;

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Payload, Result, register,
};

/// Counts the elements of each vector.
///
/// For your own type: `register!(VectorSize<Face> as "FaceVectorSizeCalculator")`.
///
/// ```pbtxt
/// input_stream: "numbers"
/// output_stream: "count"
/// node {
///   calculator: "IntVectorSizeCalculator"
///   input_stream: "VECTOR:numbers"
///   output_stream: "SIZE:count"
/// }
/// ```
pub struct VectorSize<T>(PhantomData<fn() -> T>);

impl<T: Payload> Calculator for VectorSize<T> {
    const NAME: &'static str = "VectorSizeCalculator";
    const DOC: &'static str = "Counts the elements of each vector.";
    type Options = NoOptions;
    type Ports = (In<Vec<T>>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input("VECTOR"), c.output("SIZE"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(PhantomData))
    }

    fn process(&mut self, (vector, size): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(items) = cx.get(vector) {
            let count = items.len() as i64;
            cx.emit(size, count);
        }
        Ok(Flow::Continue)
    }
}
register!(VectorSize<i64> as "IntVectorSizeCalculator");
register!(VectorSize<u64> as "Uint64tVectorSizeCalculator");
register!(VectorSize<f64> as "FloatVectorSizeCalculator");
register!(VectorSize<String> as "StringVectorSizeCalculator");

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    #[test]
    fn elements_are_counted() {
        let mut h = Harness::global(
            r#"node { calculator: "IntVectorSizeCalculator" input_stream: "VECTOR:v" output_stream: "SIZE:out" }"#,
        );
        h.push("v", 1, vec![7_i64, 8])
            .push("v", 2, Vec::<i64>::new());
        h.expect("out", [(1, 2_i64), (2, 0)]).finish();
    }
}
