//! What the registry knows about calculators, and what contracts declare.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, Ins, NoOptions, Offset, OpenCx, Out, Payload, Registry,
    Result, Side, TypeInfo, register,
};

use crate::engine::nodes::{self, environment};

/// Has a port of every kind.
struct Everything;

impl Calculator for Everything {
    const NAME: &'static str = "EverythingCalculator";
    const DOC: &'static str = "Has a port of every kind.";
    const OPTION_NAMES: &'static [&'static str] = &["mediapipe.EverythingOptions"];
    type Options = nodes::CountOptions;
    type Ports = (
        In<String>,
        In<dyn Payload>,
        Ins<Vec<u32>>,
        Out<dyn Payload>,
        Side<bool>,
    );

    fn contract(c: &mut Contract, _: &nodes::CountOptions) -> Self::Ports {
        c.offset(Offset::By(3));
        c.one_of("EITHER", &[TypeInfo::new::<i32>(), TypeInfo::new::<i64>()]);
        let any = c.any("ANY");
        (
            c.optional("TEXT"),
            any,
            c.inputs(""),
            c.same_as("OUT", any),
            c.optional_side("FLAG"),
        )
    }

    fn open(_: &nodes::CountOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, _: Self::Ports, _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Continue)
    }
}

/// Registered for all programs that link this one.
struct Registered;

impl Calculator for Registered {
    const NAME: &'static str = "RegisteredCalculator";
    type Options = NoOptions;
    type Ports = ();

    fn contract(_: &mut Contract, _: &NoOptions) {}

    fn open(_: &NoOptions, (): (), _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (): (), _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Continue)
    }
}
register!(Registered);

#[test]
fn register_puts_a_calculator_into_the_global_registry() {
    let names: Vec<&str> = Registry::global()
        .calculators()
        .map(|registration| registration.name)
        .collect();
    assert!(names.contains(&"RegisteredCalculator"), "{names:?}");
}

#[test]
fn a_calculator_describes_itself() {
    let description = &Registry::new().with::<Everything>().describe()[0];
    assert_eq!(
        (description.name, description.doc),
        ("EverythingCalculator", "Has a port of every kind.")
    );
    assert_eq!(
        description.option_names,
        ["mediapipe.EverythingOptions", "EverythingCalculatorOptions"]
    );
    let line = |port: &graphmill_engine::registry::PortDescription| {
        let mark = match (port.optional, port.repeated) {
            (false, false) => "",
            (true, false) => "?",
            (false, true) => "+",
            (true, true) => "*",
        };
        format!("{} {}{mark}: {}", port.kind, port.tag, port.ty)
    };
    let lines: Vec<String> = description.ports.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "input_stream EITHER: int32 | int",
            "input_stream ANY: any",
            "input_stream TEXT?: string",
            "input_stream +: Vec<u32>",
            "output_stream OUT: same as ANY",
            "input_side_packet FLAG?: bool",
        ]
    );
    let schema = serde_json::to_value(&description.options).expect("a schema is JSON");
    assert_eq!(schema["properties"]["to"]["type"], "integer");
}

#[test]
fn names_are_looked_up_from_the_inside_out() {
    for name in [
        "PassThroughCalculator",
        "::PassThroughCalculator",
        ".PassThroughCalculator",
        "mediapipe.PassThroughCalculator",
        "mediapipe::PassThroughCalculator",
    ] {
        let text = format!(
            r#"package: "some.where" input_stream: "a" output_stream: "b" node {{ calculator: "{name}" input_stream: "a" output_stream: "b" }}"#
        );
        assert_eq!(graphmill_engine::testing::check(&text, &environment()), "");
    }
}

#[test]
fn type_names_are_for_people() {
    assert_eq!(
        TypeInfo::new::<Vec<Option<String>>>().name(),
        "Vec<Option<String>>"
    );
    assert_eq!(
        TypeInfo::new::<(u8, std::sync::Arc<[f32]>)>().name(),
        "(u8, Arc<[f32]>)"
    );
}
