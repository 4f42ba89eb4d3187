//! `StringTo...Calculator`: text side packets as numbers and truth values.

use std::marker::PhantomData;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, NoOptions, OpenCx, OutSide, Payload, Result, Side,
    register,
};

/// A type that a text can be turned into. It decides which texts are valid.
pub trait Scalar: Send + 'static {
    /// Type of the side packet.
    type Value: Payload;

    /// Parses a text without space around it. The error is a noun phrase for what was expected.
    fn parse(text: &str) -> std::result::Result<Self::Value, String>;
}

/// Turns a side packet that is text into an integer, a float or a boolean. Space around it is
/// skipped.
///
/// The names with `Int` and `Uint`, and those with 32, take numbers that fit into 32 bits. The side
/// packets are `i64` and `u64` whatever the name says, and floats are `f64`. A boolean is `true`,
/// `t`, `yes`, `y` or `1`, or else `false`, `f`, `no`, `n` or `0`, in upper or lower case.
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
pub struct StringTo<S>(PhantomData<fn() -> S>);

impl<S: Scalar> Calculator for StringTo<S> {
    const NAME: &'static str = "StringToNumberCalculator";
    const DOC: &'static str = "Turns a text side packet into a number or a truth value.";
    type Options = NoOptions;
    type Ports = (Side<String>, OutSide<S::Value>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.side(""), c.output_side(""))
    }

    fn open(_: &NoOptions, (text, value): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        if let Some(text) = cx.side(text) {
            let space = |c: char| c.is_ascii_whitespace() || c == '\u{b}';
            let parsed = S::parse(text.trim_matches(space))
                .map_err(|wanted| Error::invalid(format!("`{text}` is no {wanted}")))?;
            cx.output_side(value, parsed);
        }
        Ok(Self(PhantomData))
    }

    fn process(&mut self, _: Self::Ports, _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Stop)
    }
}
register!(StringTo<i32> as "StringToIntCalculator");
register!(StringTo<i32> as "StringToInt32Calculator");
register!(StringTo<i64> as "StringToInt64Calculator");
register!(StringTo<u32> as "StringToUintCalculator");
register!(StringTo<u32> as "StringToUint32Calculator");
register!(StringTo<u64> as "StringToUint64Calculator");
register!(StringTo<f64> as "StringToFloatCalculator");
register!(StringTo<f64> as "StringToDoubleCalculator");
register!(StringTo<bool> as "StringToBoolCalculator");

macro_rules! integers {
    ($($of:ty as $value:ty),*) => {$(
        impl Scalar for $of {
            type Value = $value;

            fn parse(text: &str) -> std::result::Result<$value, String> {
                let read = text.parse::<$of>().map(<$value>::from);
                read.map_err(|_| format!("integer from {} to {}", <$of>::MIN, <$of>::MAX))
            }
        }
    )*};
}
integers!(i32 as i64, i64 as i64, u32 as u64, u64 as u64);

impl Scalar for f64 {
    type Value = f64;

    fn parse(text: &str) -> std::result::Result<f64, String> {
        text.parse().map_err(|_| "number".to_owned())
    }
}

impl Scalar for bool {
    type Value = bool;

    fn parse(text: &str) -> std::result::Result<bool, String> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "1" => Ok(true),
            "false" | "f" | "no" | "n" | "0" => Ok(false),
            _ => Err("truth value".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use graphmill_engine::{Payload, testing::Harness};

    fn harness(kind: &str, text: &str) -> Harness {
        let graph = format!(
            r#"node {{ calculator: "StringTo{kind}Calculator" input_side_packet: "s" output_side_packet: "v" }}"#
        );
        Harness::global(&graph).side("s", text.to_owned())
    }

    fn read<T: Payload + Copy>(kind: &str, text: &str) -> Option<T> {
        let mut harness = harness(kind, text);
        let packet = harness
            .handle()
            .side_packet("v")
            .expect("the graph makes it");
        packet.and_then(|packet| packet.get().copied())
    }

    #[test]
    fn text_is_read() {
        assert_eq!(read("Int", "-12"), Some(-12_i64));
        assert_eq!(read("Int64", " +5000000000\n"), Some(5_000_000_000_i64));
        assert_eq!(read("Uint64", "18446744073709551615"), Some(u64::MAX));
        assert_eq!(read("Float", "2.5e-1"), Some(0.25_f64));
        assert_eq!(read("Bool", "Yes"), Some(true));
    }

    #[test]
    fn other_text_is_refused() {
        for (kind, text, message) in [
            (
                "Int",
                "12x",
                "`12x` is no integer from -2147483648 to 2147483647",
            ),
            (
                "Int32",
                "2147483648",
                "`2147483648` is no integer from -2147483648 to 2147483647",
            ),
            ("Uint", "-1", "`-1` is no integer from 0 to 4294967295"),
            (
                "Int64",
                "",
                "`` is no integer from -9223372036854775808 to 9223372036854775807",
            ),
            ("Double", "1,5", "`1,5` is no number"),
            ("Bool", "on", "`on` is no truth value"),
        ] {
            assert_eq!(harness(kind, text).error().message, message);
        }
    }
}
