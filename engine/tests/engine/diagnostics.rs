//! Mistakes in graphs, as their authors see them.

use graphmill_engine::testing;
use insta::assert_snapshot;

use crate::engine::nodes::environment;

fn check(text: &str) -> String {
    testing::check(text.trim_start(), &environment())
}

#[test]
fn an_unknown_calculator() {
    assert_snapshot!(check(
        r#"
input_stream: "in"
output_stream: "out"
node { calculator: "PassTroughCalculator" input_stream: "in" output_stream: "mid" }
node { calculator: "MyOwnCalculator" input_stream: "mid" output_stream: "out" }"#
    ));
}

graphmill_engine::registry::inventory::submit! {
    graphmill_engine::registry::LeftOut {
        names: &["TelescopeCalculator"],
        feature: "telescope",
    }
}

#[test]
fn a_calculator_that_the_build_left_out() {
    assert_snapshot!(check(
        r#"
output_stream: "out"
node { calculator: "TelescopeCalculator" output_stream: "out" }"#
    ));
}

#[test]
fn wrong_ports() {
    assert_snapshot!(check(
        r#"
input_stream: "in"
output_stream: "out"
node { calculator: "LengthCalculator" input_stream: "TXT:in" output_stream: "LENGTH:out" output_stream: "MORE:more" }"#
    ));
}

#[test]
fn numbers_of_ports_that_differ() {
    assert_snapshot!(check(
        r#"
input_stream: "in"
output_stream: "x" output_stream: "y"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "x" output_stream: "y" }"#
    ));
}

#[test]
fn types_that_differ() {
    assert_snapshot!(check(
        r#"
input_stream: "text"
output_stream: "sum"
node { calculator: "LengthCalculator" input_stream: "TEXT:text" output_stream: "LENGTH:length" }
node { calculator: "PassThroughCalculator" input_stream: "length" output_stream: "passed" }
node { calculator: "AddCalculator" input_stream: "passed" input_stream: "text" output_stream: "sum" }"#
    ));
}

#[test]
fn streams_without_and_with_two_producers() {
    assert_snapshot!(check(
        r#"
input_stream: "in"
output_stream: "sum"
node { calculator: "AddCalculator" input_stream: "inn" input_stream: "elsewhere" output_stream: "sum" }
node { calculator: "AddCalculator" input_stream: "in" output_stream: "sum" }"#
    ));
}

#[test]
fn a_cycle() {
    assert_snapshot!(check(
        r#"
input_stream: "in"
node { name: "first" calculator: "AddCalculator" input_stream: "in" input_stream: "z" output_stream: "x" }
node { name: "second" calculator: "AddCalculator" input_stream: "x" output_stream: "y" }
node { name: "third" calculator: "AddCalculator" input_stream: "y" output_stream: "z" }"#
    ));
}

#[test]
fn an_unknown_calculator_causes_no_cycle() {
    // It may be a subgraph that is missing, which closes the loop inside of itself.
    let shown = check(
        r#"
input_stream: "in"
output_stream: "out"
node { calculator: "MissingSubgraph" input_stream: "IN:in" input_stream: "LOOP:back" output_stream: "OUT:out" }
node { calculator: "PassThroughCalculator" input_stream: "out" output_stream: "back" }"#,
    );
    assert_eq!(shown.matches("error[").count(), 1, "{shown}");
    assert!(shown.contains("GM0801"), "{shown}");
}

#[test]
fn wrong_back_edges() {
    assert_snapshot!(check(
        r#"
input_stream: "in"
output_stream: "out"
node { calculator: "AddCalculator" input_stream: "in" output_stream: "out"
       input_stream_info { tag_index: "LOOP" back_edge: true }
       input_stream_info { tag_index: ":0" back_edge: true }
       input_stream_info { tag_index: ":0" } }"#
    ));
}

#[test]
fn wrong_policies() {
    assert_snapshot!(check(
        r#"
input_stream: "in"
output_stream: "a" output_stream: "b" output_stream: "c"
node { calculator: "AddCalculator" input_stream: "in" output_stream: "a"
       input_stream_handler { input_stream_handler: "SyncInputStreamHandler" } }
node { calculator: "AddCalculator" input_stream: "in" output_stream: "b"
       input_stream_handler { input_stream_handler: "SyncSetInputStreamHandler" options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] {
         sync_set { tag_index: "LOOP" } sync_set { tag_index: ":0" } sync_set { tag_index: ":0" } } } } }
node { calculator: "AddCalculator" input_stream: "in" output_stream: "c"
       input_stream_handler { input_stream_handler: "FixedSizeInputStreamHandler" options { [mediapipe.FixedSizeInputStreamHandlerOptions.ext] {
         trigger_queue_size: -1 } } } }"#
    ));
}

#[test]
fn options_of_another_calculator_and_wrong_options() {
    assert_snapshot!(check(
        r#"
node { calculator: "CountCalculator" output_stream: "a" node_options { [type.googleapis.com/mediapipe.FailCalculatorOptions] {} } }
node { calculator: "CountCalculator" output_stream: "b" node_options { [type.googleapis.com/mediapipe.CountCalculatorOptions] { too: 3 } } }
node { calculator: "AddCalculator" input_stream: "a" input_stream: "b" output_stream: "sum" }"#
    ));
}

#[test]
fn warnings() {
    assert_snapshot!(check(
        r#"
input_stream: "in"
input_stream: "other"
output_stream: "out"
output_stream: "outt"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "unread" max_in_flight: 4 }"#
    ));
}

#[test]
fn nothing_is_concluded_from_what_could_not_be_read() {
    assert_snapshot!(check(
        r#"
input_stream: "in"
output_stream: "out"
node { calculator: "AddCalculator" input_stream: "IN:" output_stream: "mid" }
node { calculator: "AddCalculator" input_stream: "mid" output_stream: "out" }"#
    ));
}

#[test]
fn a_graph_that_could_not_be_read_makes_no_plan() {
    use graphmill_grammar::{SourceMap, parse_graph};
    for text in [
        "node { input_stream: \"a\" }",
        "input_stream: \"a\" node { calculator: \"AddCalculator\" colour: 3 }",
    ] {
        let mut sources = SourceMap::new();
        let parsed = parse_graph(&mut sources, "graph.pbtxt", text);
        assert!(!parsed.diagnostics.is_empty());
        let graph = parsed
            .graph
            .expect("there is a graph as far as it could be read");
        let (plan, _) = graphmill_engine::Plan::compile(&graph, &mut sources, &environment());
        assert!(plan.is_none());
    }
}

#[test]
fn what_is_not_supported_is_refused() {
    assert_snapshot!(check(
        r#"
input_stream: "in"
output_stream: "out"
packet_generator { packet_generator: "SomeGenerator" output_side_packet: "s" }
node { calculator: "AddCalculator" input_stream: "in" output_stream: "out" option_value: "a:options/b"
       output_stream_handler { output_stream_handler: "SomeOutputStreamHandler" } }"#
    ));
}

#[test]
fn codes_are_unique_and_in_their_theme() {
    let numbers: Vec<u16> = graphmill_engine::codes::all()
        .map(|code| code.number)
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert!(numbers.iter().all(|number| (300..900).contains(number)));
    for code in graphmill_engine::codes::all() {
        assert!(code.explanation.ends_with('.'), "{code}");
        assert!(code.wrong.is_empty() || code.wrong != code.right, "{code}");
    }
}
