//! Options of subgraphs, and how they get into the nodes inside.

use graphmill_engine::{
    Calculator, Contract, Cx, Environment, Flow, In, OpenCx, Out, Payload, Registry, Result,
    Subgraph,
    testing::{Harness, check},
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Says what its options are, for each packet.
struct Say(SayOptions);

#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
struct SayOptions {
    number: i64,
    words: Vec<String>,
    part: Part,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
struct Part {
    size: i64,
    name: String,
}

impl Calculator for Say {
    const NAME: &'static str = "SayCalculator";
    type Options = SayOptions;
    type Ports = (In<dyn Payload>, Out<SayOptions>);

    fn contract(c: &mut Contract, _: &SayOptions) -> Self::Ports {
        (c.any(""), c.output(""))
    }

    fn open(options: &SayOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(options.clone()))
    }

    fn process(&mut self, (_, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        cx.emit(output, self.0.clone());
        Ok(Flow::Continue)
    }
}

fn environment(node: &str, declared: &str) -> Environment {
    let inner = format!(
        r#"type: "Sub"
input_stream: "in"
output_stream: "out"
graph_options {{ [type.googleapis.com/x.SubOptions] {{ {declared} }} }}
node {{ calculator: "SayCalculator" input_stream: "in" output_stream: "out" {node} }}"#
    );
    let outer = r#"type: "Outer"
input_stream: "in"
output_stream: "out"
options { [x.OuterOptions.ext] { n: 1 } }
node { calculator: "Sub" input_stream: "in" output_stream: "out" option_value: "n:options/n" }"#;
    let typed =
        |file: &'static str, text: String| Subgraph::typed(file, text).expect("it has a type");
    Environment::new(
        Registry::new()
            .with::<Say>()
            .with_subgraph(typed("sub.pbtxt", inner))
            .with_subgraph(typed("outer.pbtxt", outer.to_owned())),
    )
}

/// The options that the inner node has, where the outer node sets `given`.
fn said(node: &str, declared: &str, given: &str) -> SayOptions {
    let outer =
        format!(r#"node {{ calculator: "Sub" input_stream: "in" output_stream: "out" {given} }}"#);
    let mut harness = Harness::new(&outer, environment(node, declared));
    harness.push("in", 1, ());
    let packets = harness.packets("out");
    packets[0].get::<SayOptions>().expect("options").clone()
}

fn given(fields: &str) -> String {
    format!("node_options {{ [type.googleapis.com/x.SubOptions] {{ {fields} }} }}")
}

#[test]
fn a_field_is_copied_from_the_outer_node_or_from_what_the_graph_declares() {
    let node = r#"option_value: "number:options/n""#;
    assert_eq!(said(node, "n: 4", "").number, 4);
    assert_eq!(said(node, "n: 4", &given("n: 7")).number, 7);
    assert_eq!(
        said(node, "n: 4", "options { [x.SubOptions.ext] { n: 8 } }").number,
        8
    );
    let own = format!(
        "node_options {{ [type.googleapis.com/x.SayCalculatorOptions] {{ number: 9 }} }} {node}"
    );
    assert_eq!(
        said(&own, "", "").number,
        9,
        "what is set nowhere is not copied"
    );
    assert_eq!(said(&own, "n: 4", "").number, 4);
}

#[test]
fn paths_lead_into_messages_and_to_elements() {
    let of = |values: &str, declared: &str| said(values, declared, "");
    let words = of(r#"option_value: "words:w""#, r#"w: "a" w: ["b", "c"]"#).words;
    assert_eq!(words, ["a", "b", "c"]);
    let words = of(r#"option_value: "words:options/w/1""#, r#"w: ["a", "b"]"#).words;
    assert_eq!(words, ["b"]);
    let said = of(
        r#"option_value: "part/size:p/size" option_value: "parts/0/name:Ext::x.SubOptions/p/name" option_value: "parts/1:p""#,
        r#"p { size: 3 name: "x" }"#,
    );
    assert_eq!((said.part.size, said.part.name.as_str()), (3, ""));
    let parts: Vec<(i64, &str)> = said
        .parts
        .iter()
        .map(|part| (part.size, part.name.as_str()))
        .collect();
    assert_eq!(parts, [(0, "x"), (3, "x")]);
}

#[test]
fn options_are_merged_as_a_whole() {
    let whole = r#"node_options { [type.googleapis.com/x.SayCalculatorOptions] { number: 1 words: "own" part { size: 1 } } }
        option_value: "OPTIONS:options""#;
    let said = said(
        whole,
        r#"number: 2 part { name: "declared" }"#,
        &given(r#"words: "given""#),
    );
    let part = Part {
        size: 1,
        name: "declared".to_owned(),
    };
    assert_eq!(
        said,
        SayOptions {
            number: 2,
            words: vec!["given".to_owned()],
            part,
            parts: Vec::new()
        }
    );
}

#[test]
fn options_pass_through_nested_subgraphs() {
    let node = r#"option_value: "number:options/n""#;
    let graph = |options: &str| {
        format!(
            r#"node {{ calculator: "Outer" input_stream: "in" output_stream: "out" {options} }}"#
        )
    };
    for (options, number) in [("", 1), ("options { [x.OuterOptions.ext] { n: 5 } }", 5)] {
        let mut harness = Harness::new(&graph(options), environment(node, ""));
        harness.push("in", 1, ());
        assert_eq!(
            harness.packets("out")[0]
                .get::<SayOptions>()
                .expect("options")
                .number,
            number
        );
    }
}

#[test]
fn the_options_of_the_graph_that_is_run_are_copied_too() {
    let graph = r#"input_stream: "in" output_stream: "out"
        graph_options { [type.googleapis.com/x.RunOptions] { n: 6 } }
        node { calculator: "SayCalculator" input_stream: "in" output_stream: "out" option_value: "number:n" }"#;
    let mut harness = Harness::new(graph, environment("", ""));
    harness.push("in", 1, ());
    assert_eq!(
        harness.packets("out")[0]
            .get::<SayOptions>()
            .expect("options")
            .number,
        6
    );
}

#[test]
fn mistakes_are_found_where_they_are_written() {
    let used = |given: &str| {
        format!(
            "node {{\n  calculator: \"Sub\"\n  input_stream: \"in\"\n  output_stream: \"out\"\n  {given}\n}}"
        )
    };
    let said = |node: &str, given: &str| check(&used(given), &environment(node, ""));
    insta::assert_snapshot!(
        "unused",
        said(r#"option_value: "number:options/n""#, &given("m: 7"))
    );
    insta::assert_snapshot!(
        "foreign",
        said(
            r#"option_value: "number:n""#,
            "node_options { [type.googleapis.com/x.OtherOptions] {} }",
        )
    );
    insta::assert_snapshot!(
        "wrong_type",
        said(r#"option_value: "number:n""#, &given(r#"n: "seven""#))
    );
    insta::assert_snapshot!(
        "unknown_field",
        said(r#"option_value: "numbr:n""#, &given("n: 7"))
    );
    insta::assert_snapshot!(
        "no_way",
        said(
            r#"option_value: "part/size/deep:n" option_value: "parts/3:n" option_value: "number:Ext::x.NoneOptions/n""#,
            &given("n: 7"),
        )
    );
}

/// A graph of one subgraph, which declares no options, with its node's options as `given`.
fn undeclared(node: &str, given: &str) -> (String, Environment) {
    let inner = format!(
        r#"type: "Sub" input_stream: "in" output_stream: "out"
node {{ calculator: "SayCalculator" input_stream: "in" output_stream: "out" {node} }}"#
    );
    let registry = Registry::new()
        .with::<Say>()
        .with_subgraph(Subgraph::typed("sub.pbtxt", inner).expect("it has a type"));
    let outer =
        format!(r#"node {{ calculator: "Sub" input_stream: "in" output_stream: "out" {given} }}"#);
    (outer, Environment::new(registry))
}

#[test]
fn options_that_are_nowhere_are_taken_from_nowhere() {
    let own = "node_options { [type.googleapis.com/mediapipe.SayCalculatorOptions] { number: 3 } }";
    for path in ["OPTIONS:options", "number:options/n", "part:options/p/q"] {
        let node = format!(r#"{own} option_value: "{path}""#);
        let (graph, environment) = undeclared(&node, "");
        let mut harness = Harness::new(&graph, environment.clone());
        harness.push("in", 1, ());
        let said = harness.packets("out")[0]
            .get::<SayOptions>()
            .expect("options")
            .clone();
        assert_eq!((said.number, said.words.len()), (3, 0), "{path}");
        // The same in the graph that is run.
        let graph = format!(
            r#"input_stream: "in" output_stream: "out" node {{ calculator: "SayCalculator" input_stream: "in" output_stream: "out" {node} }}"#
        );
        assert_eq!(check(&graph, &environment), "", "{path}");
    }
}

#[test]
fn options_that_only_the_node_gives_are_taken_too() {
    let given =
        "node_options { [type.googleapis.com/mediapipe.SayCalculatorOptions] { number: 5 } }";
    let (graph, environment) = undeclared(r#"option_value: "OPTIONS:options""#, given);
    let mut harness = Harness::new(&graph, environment);
    harness.push("in", 1, ());
    let said = harness.packets("out")[0]
        .get::<SayOptions>()
        .expect("options")
        .clone();
    assert_eq!(said.number, 5);
    let (graph, environment) = undeclared("", given);
    let shown = check(&graph, &environment);
    assert!(
        shown.contains("GM0804") || shown.contains("cannot be set"),
        "{shown}"
    );
}
