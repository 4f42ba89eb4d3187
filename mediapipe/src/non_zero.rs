//! `NonZeroCalculator`: a test if an integer is not zero.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Result, register,
};

/// Tests each integer for not being zero. The answer is 1 or 0 on `OUTPUT`, and a boolean on
/// `OUTPUT_BOOL`. At least one of them must be connected.
///
/// ```pbtxt
/// input_stream: "count"
/// output_stream: "any"
/// node {
///   calculator: "NonZeroCalculator"
///   input_stream: "INPUT:count"
///   output_stream: "OUTPUT_BOOL:any"
/// }
/// ```
pub struct NonZero;

impl Calculator for NonZero {
    const NAME: &'static str = "NonZeroCalculator";
    const DOC: &'static str = "Tests if each integer is not zero.";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>, Out<bool>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        let number = c.optional_output("OUTPUT");
        let boolean = c.optional_output("OUTPUT_BOOL");
        if !number.is_connected() && !boolean.is_connected() {
            c.error("at least one of `OUTPUT` and `OUTPUT_BOOL` has to be connected");
        }
        (c.input("INPUT"), number, boolean)
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (input, number, boolean): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(value) = cx.take(input) {
            cx.emit(number, i64::from(value != 0));
            cx.emit(boolean, value != 0);
        }
        Ok(Flow::Continue)
    }
}
register!(NonZero);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    #[test]
    fn zero_is_told_from_the_rest() {
        let mut h = Harness::global(
            r#"node { calculator: "NonZeroCalculator" input_stream: "INPUT:in" output_stream: "OUTPUT:n" output_stream: "OUTPUT_BOOL:b" }"#,
        );
        h.push("in", 1, 0_i64).push("in", 2, -3_i64);
        h.expect("n", [(1, 0_i64), (2, 1)])
            .expect("b", [(1, false), (2, true)]);
    }
}
