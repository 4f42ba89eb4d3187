//! What a graph has to be: order, producers, types, names. How mistakes read is shown in
//! `diagnostics`.

use graphmill_engine::{
    Calculator, Contract, Cx, Environment, Flow, In, NoOptions, OpenCx, Out, Packet, Payload, Plan,
    Registry, Result, TypeInfo, testing::Harness,
};
use graphmill_grammar::{SourceMap, parse_graph};

use crate::engine::nodes;

/// The codes of what is wrong with a graph, and its nodes in order if nothing is.
fn compiled(text: &str, environment: &Environment) -> (Vec<u16>, Vec<String>) {
    let mut sources = SourceMap::new();
    let parsed = parse_graph(&mut sources, "graph.pbtxt", text);
    let graph = parsed.graph.expect("a graph");
    let (plan, found) = Plan::compile(&graph, &mut sources, environment);
    let all = parsed.diagnostics.iter().chain(&found);
    let codes = all.map(|diagnostic| diagnostic.code.number).collect();
    let names = |plan: &std::sync::Arc<Plan>| {
        let nodes = plan.explain().nodes.iter();
        nodes.map(|node| node.name.clone()).collect()
    };
    (codes, plan.as_ref().map(names).unwrap_or_default())
}

fn codes(text: &str) -> Vec<u16> {
    compiled(text, &nodes::environment()).0
}

fn order(text: &str) -> String {
    let (codes, names) = compiled(text, &nodes::environment());
    assert_eq!(codes, [0; 0]);
    names.join(" ")
}

fn add(name: &str, inputs: &[&str], output: &str) -> String {
    let inputs: Vec<String> = inputs
        .iter()
        .map(|input| format!("input_stream: \"{input}\""))
        .collect();
    format!(
        "node {{ name: \"{name}\" calculator: \"AddCalculator\" {} output_stream: \"{output}\" }}\n",
        inputs.join(" ")
    )
}

#[test]
fn nodes_in_reverse_order_are_sorted_and_run() {
    let text = [
        add("third", &["b"], "out"),
        add("second", &["a"], "b"),
        add("first", &["in"], "a"),
    ]
    .concat();
    let graph = format!("input_stream: \"in\" output_stream: \"out\"\n{text}");
    assert_eq!(order(&graph), "first second third");
    let mut h = nodes::run(&graph);
    h.push("in", 1, 7_i64).expect("out", [(1, 7_i64)]);
    h.finish();
}

#[test]
fn the_order_of_the_file_stays_where_it_will_do_and_breaks_ties() {
    let border =
        "input_stream: \"in\" output_stream: \"x\" output_stream: \"y\" output_stream: \"z\"\n";
    let free = [
        add("c", &["in"], "x"),
        add("a", &["in"], "y"),
        add("b", &["in"], "z"),
    ]
    .concat();
    assert_eq!(order(&format!("{border}{free}")), "c a b");
    // `last` has to move; of those that are ready, the one that comes first in the file is next.
    let tied = [
        add("last", &["y", "z", "y"], "x"),
        add("two", &["in"], "z"),
        add("one", &["in"], "y"),
    ]
    .concat();
    assert_eq!(order(&format!("{border}{tied}")), "two one last");
}

#[test]
fn a_stream_has_one_producer() {
    let twice = [add("a", &["in"], "out"), add("b", &["in"], "out")].concat();
    let border = "input_stream: \"in\" output_stream: \"out\"\n";
    assert_eq!(codes(&format!("{border}{twice}")), [302]);
    let by_the_graph = add("a", &["in"], "in");
    assert!(codes(&format!("{border}{by_the_graph}")).contains(&302));
    assert_eq!(
        codes(&format!("{border}{}", add("a", &["in", "nowhere"], "out"))),
        [301]
    );
    let ports = "input_stream: \"in\" output_stream: \"A:out\" output_stream: \"B:out\"";
    let twice_by_one = format!("{border}node {{ calculator: \"PassThroughCalculator\" {ports} }}");
    assert!(codes(&twice_by_one).contains(&302));
}

#[test]
fn one_stream_may_feed_several_inputs_of_a_node() {
    let mut h = nodes::run(&add("twice", &["in", "in"], "out"));
    h.push("in", 1, 4_i64).expect("out", [(1, 8_i64)]);
}

#[test]
fn a_loop_needs_a_back_edge() {
    let border = "input_stream: \"in\" output_stream: \"out\"\n";
    let own = |info: &str| {
        format!(
            "{border}node {{ calculator: \"AddCalculator\" input_stream: \"in\" input_stream: \"later\" output_stream: \"out\" {info} }}
             node {{ calculator: \"DelayCalculator\" input_stream: \"out\" output_stream: \"later\" }}"
        )
    };
    assert_eq!(codes(&own("")), [601]);
    let marked = own("input_stream_info { tag_index: \":1\" back_edge: true }");
    assert_eq!(codes(&marked), [0; 0]);
    let unneeded = own(
        "input_stream_info { tag_index: \":1\" back_edge: true } input_stream_info { tag_index: \":0\" back_edge: true }",
    );
    assert_eq!(codes(&unneeded), [604]);
    assert_eq!(
        codes(&own(
            "input_stream_info { tag_index: \":0\" back_edge: true }"
        )),
        [601]
    );
    let to_itself = add("self", &["in", "out"], "out");
    assert_eq!(codes(&format!("{border}{to_itself}")), [601]);
    let nowhere = "node { calculator: \"AddCalculator\" input_stream: \"in\" input_stream: \"elsewhere\" output_stream: \"out\" \
                   input_stream_info { tag_index: \":1\" back_edge: true } }";
    assert_eq!(codes(&format!("{border}{nowhere}")), [301]);
}

/// A payload that no other node takes.
#[derive(Debug)]
struct Strange;

/// Declares types and does nothing else.
macro_rules! typed {
    ($node:ident, $name:literal, |$c:ident| $ports:expr) => {
        struct $node;

        impl Calculator for $node {
            const NAME: &'static str = $name;
            type Options = NoOptions;
            type Ports = ();

            fn contract($c: &mut Contract, _: &NoOptions) {
                $ports;
            }

            fn open(_: &NoOptions, (): (), _: &mut OpenCx<'_>) -> Result<Self> {
                Ok(Self)
            }

            fn process(&mut self, (): (), _: &mut Cx<'_>) -> Result<Flow> {
                Ok(Flow::Continue)
            }
        }
    };
}

typed!(Texts, "TextsCalculator", |c| c.output::<String>(""));
typed!(Numbers, "NumbersCalculator", |c| c.output::<i64>(""));
typed!(Stranges, "StrangesCalculator", |c| c.output::<Strange>(""));
typed!(Anything, "AnythingCalculator", |c| c
    .output::<dyn Payload>(""));
typed!(TakesText, "TakesTextCalculator", |c| c.input::<String>(""));
typed!(TakesNumber, "TakesNumberCalculator", |c| c.input::<i64>(""));
typed!(TakesEither, "TakesEitherCalculator", |c| {
    c.one_of("", &[TypeInfo::new::<i64>(), TypeInfo::new::<String>()])
});
typed!(Same, "SameCalculator", |c| {
    let input = c.input::<dyn Payload>("");
    c.same_as("", input)
});

/// The codes for a producer, then nodes that pass on what they get, then consumers, in one line.
fn types(producer: &str, passes: usize, consumers: &[&str]) -> Vec<u16> {
    let registry = Registry::new()
        .with::<Texts>()
        .with::<Numbers>()
        .with::<Stranges>()
        .with::<Anything>()
        .with::<TakesText>()
        .with::<TakesNumber>()
        .with::<TakesEither>()
        .with::<Same>();
    let mut text = match producer {
        "" => "input_stream: \"s0\"\n".to_owned(),
        name => format!("node {{ calculator: \"{name}Calculator\" output_stream: \"s0\" }}\n"),
    };
    for pass in 0..passes {
        let next = pass + 1;
        let ports = format!("input_stream: \"s{pass}\" output_stream: \"s{next}\"");
        text.extend(["node { calculator: \"SameCalculator\" ", &ports, " }\n"]);
    }
    for consumer in consumers {
        let input = format!("Calculator\" input_stream: \"s{passes}\"");
        text.extend(["node { calculator: \"", consumer, &input, " }\n"]);
    }
    compiled(&text, &Environment::new(registry)).0
}

#[test]
fn both_ends_of_a_stream_agree_on_its_type() {
    const RIGHT: [u16; 0] = [];
    assert_eq!(types("Numbers", 0, &["TakesNumber"]), RIGHT);
    assert_eq!(types("Numbers", 0, &["TakesText"]), [401]);
    assert_eq!(types("Anything", 0, &["TakesText"]), RIGHT);
    // Through nodes that pass on what they get, forwards and backwards.
    assert_eq!(types("Numbers", 3, &["TakesNumber"]), RIGHT);
    assert_eq!(types("Numbers", 3, &["TakesText"]), [401]);
    assert_eq!(types("", 2, &["TakesText"]), RIGHT);
    // One of several.
    assert_eq!(types("Texts", 1, &["TakesEither"]), RIGHT);
    assert_eq!(types("Stranges", 0, &["TakesEither"]), [401]);
    // What comes from outside, or from a port of any type, cannot be two things.
    assert_eq!(types("", 0, &["TakesNumber", "TakesText"]), [402]);
    assert_eq!(types("", 0, &["TakesEither", "TakesText"]), RIGHT);
    assert_eq!(types("Anything", 0, &["TakesNumber", "TakesText"]), [401]);
}

#[test]
fn a_packet_of_another_type_than_the_graph_was_checked_for_is_refused() {
    let text = "node { calculator: \"AddCalculator\" input_stream: \"in\" output_stream: \"out\" }";
    let mut h = nodes::run(text);
    let packet = Packet::new(1, "five".to_owned());
    let error = h.handle().try_push("in", packet).expect_err("a text");
    let message = error.to_string();
    assert!(
        message.contains("`string`") && message.contains("`int`"),
        "{message}"
    );
}

/// Emits its number for each packet.
macro_rules! says {
    ($node:ident, $name:literal, $number:literal) => {
        struct $node;

        impl Calculator for $node {
            const NAME: &'static str = $name;
            type Options = NoOptions;
            type Ports = (In<dyn Payload>, Out<i64>);

            fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
                (c.any(""), c.output(""))
            }

            fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
                Ok(Self)
            }

            fn process(&mut self, (_, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
                cx.emit(output, $number);
                Ok(Flow::Continue)
            }
        }
    };
}

says!(Global, "X", 0_i64);
says!(Outer, "a.X", 1_i64);
says!(Inner, "a.b.X", 2_i64);
says!(OnlyOuter, "a.Y", 3_i64);
says!(Elsewhere, "c.X", 4_i64);
says!(OnlyGlobal, "Z", 5_i64);

#[test]
fn names_are_looked_up_in_the_package_then_around_it_then_at_the_top() {
    for (package, name, number) in [
        ("a.b", "X", 2_i64),
        ("a", "X", 1),
        ("", "X", 0),
        ("c.d", "X", 4),
        ("e", "X", 0),
        ("a.b", "Y", 3),
        ("a.b", "Z", 5),
        ("a::b", "X", 2),
        ("a.b", ".a.X", 1),
        ("a.b", "::X", 0),
        ("a.b", ".X", 0),
        ("", "a::b::X", 2),
        ("a", "b.X", 2),
        ("a.b", "mediapipe.Z", 5),
    ] {
        let registry = Registry::new()
            .with::<Global>()
            .with::<Outer>()
            .with::<Inner>()
            .with::<OnlyOuter>()
            .with::<Elsewhere>()
            .with::<OnlyGlobal>();
        let text = format!(
            "package: \"{package}\" node {{ calculator: \"{name}\" input_stream: \"in\" output_stream: \"out\" }}"
        );
        Harness::new(&text, Environment::new(registry))
            .push("in", 1, ())
            .expect("out", [(1, number)]);
    }
}
