//! `ConstantSidePacketCalculator`: side packets from the graph file.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, Group, OpenCx, OutSides, Packet, Payload, Result, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of a `ConstantSidePacketCalculator` node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConstantSidePacketOptions {
    /// The values, one for each output.
    pub packet: Vec<Constant>,
}

/// A value. Exactly one of its fields must be set.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Constant {
    /// A 32-bit integer. The side packet is an `i64`.
    pub int_value: Option<i32>,
    /// A signed 64-bit integer, as an `i64`.
    pub int64_value: Option<i64>,
    /// An unsigned 64-bit integer, as a `u64`.
    pub uint64_value: Option<u64>,
    /// A floating-point number of single precision. The side packet is an `f64`.
    pub float_value: Option<f64>,
    /// A floating-point number, as an `f64`.
    pub double_value: Option<f64>,
    /// A boolean, as a `bool`.
    pub bool_value: Option<bool>,
    /// A text, as a `String`.
    pub string_value: Option<String>,
    /// A list of texts, as a `Vec<String>`.
    pub string_vector_value: Option<StringVector>,
}

/// Message that holds a list of texts.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StringVector {
    /// The texts, in order. May be empty.
    pub string_value: Vec<String>,
}

/// Sets its output side packets `PACKET:0`, `PACKET:1`, ... to the values that its options list.
///
/// ```pbtxt
/// output_side_packet: "limit"
/// output_side_packet: "greeting"
/// node {
///   calculator: "ConstantSidePacketCalculator"
///   output_side_packet: "PACKET:0:limit"
///   output_side_packet: "PACKET:1:greeting"
///   options {
///     [mediapipe.ConstantSidePacketCalculatorOptions.ext] {
///       packet { int_value: 256 }
///       packet { string_value: "hello" }
///     }
///   }
/// }
/// ```
pub struct ConstantSidePacket;

impl Calculator for ConstantSidePacket {
    const NAME: &'static str = "ConstantSidePacketCalculator";
    const DOC: &'static str = "Sets side packets to values from the graph file.";
    const OPTION_NAMES: &'static [&'static str] =
        &["mediapipe.ConstantSidePacketCalculatorOptions"];
    type Options = ConstantSidePacketOptions;
    type Ports = OutSides<dyn Payload>;

    fn contract(c: &mut Contract, options: &ConstantSidePacketOptions) -> Self::Ports {
        let outputs = c.optional_output_sides("PACKET");
        let (connected, given) = (c.count(Group::OutputSides, "PACKET"), options.packet.len());
        if connected != given {
            c.error(format!(
                "each `packet` of the options needs an output `PACKET`, but there are {given} and {connected}"
            ));
        }
        for (index, constant) in options.packet.iter().enumerate().take(connected) {
            let port = format!("PACKET:{index}");
            match constant.packet() {
                Some((_, declare)) => declare(c, &port),
                None => c.error(format!(
                    "`packet` {index} of the options must have exactly one value"
                )),
            }
        }
        outputs
    }

    fn open(
        options: &ConstantSidePacketOptions,
        io: Self::Ports,
        cx: &mut OpenCx<'_>,
    ) -> Result<Self> {
        for (output, constant) in io.iter().zip(&options.packet) {
            if let Some((packet, _)) = constant.packet() {
                cx.out().side_packet(output, packet);
            }
        }
        Ok(Self)
    }

    fn process(&mut self, _: Self::Ports, _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Stop)
    }
}
register!(ConstantSidePacket);

/// A side packet, and the function that declares an output of its type.
type TypedPacket = (Packet, fn(&mut Contract, &str));

fn typed<T: Payload>(value: T) -> TypedPacket {
    let declare: fn(&mut Contract, &str) = |c, port| _ = c.output_side::<T>(port);
    (Packet::side(value), declare)
}

impl Constant {
    /// Returns the value as a side packet, or `None` unless exactly one field is set.
    fn packet(&self) -> Option<TypedPacket> {
        let texts = self.string_vector_value.as_ref();
        let values = [
            self.int_value.map(i64::from).map(typed),
            self.int64_value.map(typed),
            self.uint64_value.map(typed),
            self.float_value.map(typed),
            self.double_value.map(typed),
            self.bool_value.map(typed),
            self.string_value.clone().map(typed),
            texts.map(|texts| typed(texts.string_value.clone())),
        ];
        let mut set = values.into_iter().flatten();
        set.next().filter(|_| set.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use graphmill_engine::{
        Environment, Payload, Registry,
        testing::{Harness, check},
    };

    fn graph(outputs: usize, packets: &str) -> String {
        let outputs: Vec<String> = (0..outputs)
            .map(|index| format!(r#"output_side_packet: "PACKET:{index}:p{index}""#))
            .collect();
        let outputs = outputs.join(" ");
        format!(
            r#"node {{ calculator: "ConstantSidePacketCalculator" {outputs}
               options {{ [mediapipe.ConstantSidePacketCalculatorOptions.ext] {{ {packets} }} }} }}"#
        )
    }

    fn value<T: Payload + Clone>(packet: &str) -> Option<T> {
        let mut harness = Harness::global(&graph(1, packet));
        let packet = harness
            .handle()
            .side_packet("p0")
            .expect("the graph makes it");
        packet.and_then(|packet| packet.get().cloned())
    }

    #[test]
    fn every_kind_of_value() {
        assert_eq!(value("packet { int_value: -5 }"), Some(-5_i64));
        assert_eq!(
            value("packet { int64_value: 5000000000 }"),
            Some(5_000_000_000_i64)
        );
        assert_eq!(
            value("packet { uint64_value: 18446744073709551615 }"),
            Some(u64::MAX)
        );
        assert_eq!(value("packet { float_value: 0.5 }"), Some(0.5_f64));
        assert_eq!(value("packet { double_value: 1e300 }"), Some(1e300_f64));
        assert_eq!(value("packet { bool_value: true }"), Some(true));
        assert_eq!(
            value("packet { string_value: \"a\" }"),
            Some("a".to_owned())
        );
        assert_eq!(
            value(r#"packet { string_vector_value { string_value: "a" string_value: "b" } }"#),
            Some(vec!["a".to_owned(), "b".to_owned()])
        );
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (outputs, packets, message) in [
            (2, "packet { int_value: 1 }", "there are 1 and 2"),
            (1, "packet { }", "exactly one value"),
            (
                1,
                "packet { int_value: 1 bool_value: true }",
                "exactly one value",
            ),
            (1, "packet { int_value: 3000000000 }", "error"),
        ] {
            let graph = graph(outputs, packets);
            let found = check(&graph, &Environment::new(Registry::global()));
            assert!(found.contains(message), "{packets}:\n{found}");
        }
    }

    #[test]
    fn a_constant_has_a_type() {
        let graph = graph(1, "packet { int_value: 1 }")
            + r#"node { calculator: "StringToIntCalculator" input_side_packet: "p0" output_side_packet: "n" }"#;
        let found = check(&graph, &Environment::new(Registry::global()));
        assert!(
            found.contains("`int`") && found.contains("`string`"),
            "{found}"
        );
    }
}
