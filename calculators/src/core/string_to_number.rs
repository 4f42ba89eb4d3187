//! `StringToIntCalculator`: text side packets as numbers.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, NoOptions, OpenCx, OutSide, Result, Side, register,
};

/// Turns a side packet that is text into one that is an integer.
///
/// ```pbtxt
/// input_side_packet: "text"
/// output_side_packet: "number"
/// node {
///   calculator: "StringToIntCalculator"
///   input_side_packet: "text"
///   output_side_packet: "number"
/// }
/// ```
pub struct StringToInt;

impl Calculator for StringToInt {
    const NAME: &'static str = "StringToIntCalculator";
    const DOC: &'static str = "Turns a text side packet into an integer.";
    type Options = NoOptions;
    type Ports = (Side<String>, OutSide<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.side(""), c.output_side(""))
    }

    fn open(_: &NoOptions, (text, number): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        let Some(text) = cx.side(text) else {
            return Ok(Self);
        };
        let value: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
            Error::invalid(format!("`{text}` is no integer")).with_source(error)
        })?;
        cx.output_side(number, value);
        Ok(Self)
    }

    fn process(&mut self, _: Self::Ports, _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Stop)
    }
}
register!(StringToInt);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::StringToInt;

    #[test]
    fn text_that_is_no_number_is_refused() {
        let graph = r#"node { calculator: "StringToIntCalculator" input_side_packet: "s" output_side_packet: "i" }"#;
        let mut harness = Harness::of::<StringToInt>(graph).side("s", "12x".to_owned());
        assert_eq!(harness.error().message, "`12x` is no integer");
        let mut harness = Harness::of::<StringToInt>(graph).side("s", "-12".to_owned());
        assert!(harness.start().ended());
    }
}
