//! Graphs as nodes of other graphs.

use graphmill_engine::{
    Environment, Registry, Subgraph,
    testing::{Harness, check},
};

use crate::engine::nodes;

fn subgraph(name: &'static str, text: &'static str, primary: Option<&'static str>) -> Subgraph {
    let subgraph = Subgraph::new(name, format!("{name}.pbtxt"), text);
    match primary {
        Some(primary) => subgraph.with_primary(primary),
        None => subgraph,
    }
}

const TWICE: &str = r#"
input_stream: "IN:first"
output_stream: "OUT:second"
node { calculator: "AddCalculator" input_stream: "first" output_stream: "middle" }
node { calculator: "AddCalculator" input_stream: "middle" input_stream: "first" output_stream: "second" }
"#;

const QUAD: &str = r#"
input_stream: "IN:a"
output_stream: "OUT:c"
node { name: "One" calculator: "TwiceSubgraph" input_stream: "IN:a" output_stream: "OUT:b" }
node { calculator: "TwiceSubgraph" input_stream: "IN:b" output_stream: "OUT:c" }
"#;

const FAILING: &str = r#"
input_stream: "in"
input_stream: "MORE:more"
output_stream: "out"
node { calculator: "FailCalculator" input_stream: "passed" output_stream: "out" }
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "passed" }
node { calculator: "ProbeCalculator" input_stream: "in" input_stream: "more" output_stream: "CALLS:calls" }
"#;

const LOOP_A: &str = r#"
input_stream: "a"
output_stream: "b"
node { calculator: "LoopBSubgraph" input_stream: "a" output_stream: "b" }
"#;

const LOOP_B: &str = r#"
input_stream: "a"
output_stream: "b"
node { calculator: "LoopASubgraph" input_stream: "a" output_stream: "b" }
"#;

const BROKEN: &str = r#"
input_stream: "a"
output_stream: "b"
node { calculator: "PassThruCalculator" input_stream: "a" output_stream: "b" }
"#;

fn environment() -> Environment {
    let registry = nodes::environment().registry().clone();
    Environment::new(
        registry
            .with_subgraph(subgraph("TwiceSubgraph", TWICE, None))
            .with_subgraph(subgraph("QuadSubgraph", QUAD, None))
            .with_subgraph(subgraph("FailingSubgraph", FAILING, Some("FailCalculator")))
            .with_subgraph(subgraph("LoopASubgraph", LOOP_A, None))
            .with_subgraph(subgraph("LoopBSubgraph", LOOP_B, None))
            .with_subgraph(subgraph("BrokenSubgraph", BROKEN, None)),
    )
}

#[test]
fn a_nested_subgraph_runs() {
    let text = r#"
        node { calculator: "QuadSubgraph" input_stream: "IN:in" output_stream: "OUT:out" }
        node { calculator: "PassThroughCalculator" input_stream: "out" output_stream: "passed" }"#;
    let mut h = Harness::new(text, environment());
    h.push("in", 1, 10_i64).expect("passed", [(1, 40_i64)]);
    h.finish();
    let names: Vec<&str> = h
        .plan()
        .explain()
        .nodes
        .iter()
        .map(|node| node.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "quadsubgraph__one__AddCalculator_1",
            "quadsubgraph__one__AddCalculator_2",
            "quadsubgraph__twicesubgraph__AddCalculator_1",
            "quadsubgraph__twicesubgraph__AddCalculator_2",
            "PassThroughCalculator",
        ]
    );
    let first = &h.plan().explain().nodes[0];
    assert_eq!(first.within, ["QuadSubgraph", "TwiceSubgraph"]);
    assert_eq!(
        (
            first.inputs[0].name.as_str(),
            first.outputs[0].name.as_str()
        ),
        ("in", "quadsubgraph__one__middle")
    );
}

#[test]
fn the_primary_node_gets_options_and_handler() {
    let text = r#"
        input_stream: "in"
        node { calculator: "FailingSubgraph" input_stream: "in" output_stream: "out" executor: "cpu"
               input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" }
               node_options { [type.x/mediapipe.FailCalculatorOptions] { at: "process" } } }"#;
    let mut h = Harness::new(text, environment());
    h.push("in", 1, 13_i64);
    assert_eq!(
        h.error().node.as_deref(),
        Some("failingsubgraph__FailCalculator")
    );
    let nodes = &h.plan().explain().nodes;
    let of = |name: &str| {
        nodes
            .iter()
            .find(|node| node.name.ends_with(name))
            .expect("it is there")
    };
    assert_eq!(
        (
            of("FailCalculator").policy.as_str(),
            of("FailCalculator").runs.as_str()
        ),
        ("Immediate", "on `cpu`")
    );
    assert_eq!(of("PassThroughCalculator").policy, "Default");
    assert_eq!(
        of("ProbeCalculator").inputs.len(),
        1,
        "what the outer node leaves out is taken off"
    );
}

#[test]
fn an_inner_stream_has_the_outer_name_at_the_border() {
    let text = r#"input_stream: "in" node { calculator: "FailingSubgraph" input_stream: "in" input_stream: "MORE:in" output_stream: "out" }"#;
    let mut h = Harness::new(text, environment());
    h.push("in", 1, 1_i64).expect("out", [(1, 1_i64)]);
    assert_eq!(h.packets("failingsubgraph__calls").len(), 1);
}

#[test]
fn mistakes_about_subgraphs_are_found() {
    insta::assert_snapshot!(
        "misused",
        check(
            r#"node { calculator: "TwiceSubgraph" input_stream: "INN:in" output_stream: "OUT:out" source_layer: 1
       node_options { [type.x/mediapipe.FailCalculatorOptions] {} } }"#,
            &environment()
        )
    );
    insta::assert_snapshot!(
        "recursive",
        check(
            r#"node { calculator: "LoopASubgraph" input_stream: "in" output_stream: "out" }"#,
            &environment()
        )
    );
    insta::assert_snapshot!(
        "broken",
        check(
            r#"node { calculator: "BrokenSubgraph" input_stream: "in" output_stream: "out" }"#,
            &environment()
        )
    );
}

#[test]
fn an_index_that_the_border_does_not_have_is_named() {
    let text = r#"node { calculator: "TwiceSubgraph" input_stream: "IN:in" input_stream: "IN:1:more" output_stream: "OUT:out" }"#;
    let said = check(text, &environment());
    assert!(
        said.contains("GM0805") && said.contains("no input stream `IN:1`"),
        "{said}"
    );
}

#[test]
fn a_wire_that_crosses_the_border_is_wrong_where_the_user_wrote_it() {
    let text = r#"
input_stream: "unused"
output_stream: "loop"
node {
  calculator: "TwiceSubgraph"
  input_stream: "IN:loop"
  output_stream: "OUT:loop"
}"#;
    let said = check(text, &environment());
    assert!(said.contains("GM0601"), "{said}");
    assert!(said.contains("--> graph.pbtxt:6:"), "{said}");
    assert!(!said.contains("--> TwiceSubgraph.pbtxt"), "{said}");
}

#[test]
fn an_inner_executor_is_that_of_the_graph_that_is_run() {
    let inner = r#"type: "OnPoolSubgraph" input_stream: "a" output_stream: "b" executor { name: "pool" }
        node { calculator: "AddCalculator" input_stream: "a" output_stream: "b" executor: "pool" }"#;
    let registry = nodes::environment().registry().clone();
    let subgraph = Subgraph::typed("pool.pbtxt", inner).expect("it has a type");
    let environment = Environment::new(registry.with_subgraph(subgraph));
    let node = r#"node { calculator: "OnPoolSubgraph" input_stream: "in" output_stream: "out" }"#;
    let said = check(node, &environment);
    assert!(
        said.contains("GM0821") && said.contains("error[GM07"),
        "{said}"
    );
    let declared = format!(
        r#"input_stream: "in" output_stream: "out" executor {{ name: "pool" type: "ThreadPoolExecutor"
           options {{ [mediapipe.ThreadPoolExecutorOptions.ext] {{ num_threads: 1 }} }} }} {node}"#
    );
    let said = check(&declared, &environment);
    assert!(!said.contains("error"), "{said}");
}

#[test]
fn side_packets_and_repeated_names_get_the_prefix() {
    let inner = r#"type: "SidesSubgraph" input_side_packet: "IN:a" output_side_packet: "OUT:c"
        node { calculator: "MakeSideCalculator" input_side_packet: "BASE:a" output_side_packet: "OUT:b" }
        node { calculator: "MakeSideCalculator" input_side_packet: "BASE:b" output_side_packet: "OUT:c" }"#;
    let registry = nodes::environment().registry().clone();
    let subgraph = Subgraph::typed("sides.pbtxt", inner).expect("it has a type");
    let text = r#"input_stream: "in" input_side_packet: "given" output_side_packet: "made"
        node { name: "My.Node" calculator: "SidesSubgraph" input_side_packet: "IN:given" output_side_packet: "OUT:made" }"#;
    let h = Harness::new(text, Environment::new(registry.with_subgraph(subgraph)));
    let nodes = &h.plan().explain().nodes;
    let of = |at: usize| {
        let (input, output) = (&nodes[at].side_inputs[0], &nodes[at].side_outputs[0]);
        (
            nodes[at].name.as_str(),
            input.name.as_str(),
            output.name.as_str(),
        )
    };
    assert_eq!(
        of(0),
        ("my_node__MakeSideCalculator_1", "given", "my_node__b")
    );
    assert_eq!(
        of(1),
        ("my_node__MakeSideCalculator_2", "my_node__b", "made")
    );
}

#[test]
fn what_is_wrong_in_a_subgraph_is_said_once() {
    let node = |at: usize| {
        format!(
            r#"node {{ calculator: "BrokenSubgraph" input_stream: "in" output_stream: "out{at}" }}"#
        )
    };
    let said = check(&(0..3).map(node).collect::<String>(), &environment());
    assert_eq!(said.matches("error[").count(), 1, "{said}");
}

#[test]
fn subgraphs_without_measure_are_refused() {
    let twice = |level: usize, uses: usize| {
        let node = format!("node {{ calculator: \"Level{}\" }} ", level - 1);
        Subgraph::new(
            format!("Level{level}"),
            format!("{level}.pbtxt"),
            node.repeat(uses),
        )
    };
    let levels = |count: usize, uses: usize| {
        let subgraphs = (1..=count).map(|level| twice(level, uses));
        let registry = nodes::environment().registry().clone();
        let zero = Subgraph::new(
            "Level0",
            "0.pbtxt",
            "node { calculator: \"CountCalculator\" output_stream: \"a\" }",
        );
        let registry = subgraphs.fold(registry.with_subgraph(zero), Registry::with_subgraph);
        check(
            &format!("node {{ calculator: \"Level{count}\" }}"),
            &Environment::new(registry),
        )
    };
    assert!(levels(40, 2).contains("GM0807"), "doubled forty times");
    assert!(levels(70, 1).contains("GM0820"), "nested seventy deep");
}

#[test]
fn a_subgraph_that_is_used_wrongly_hides_no_other_mistake() {
    let text = r#"
input_stream: "in"
output_stream: "out"
output_stream: "more"
node { calculator: "TwiceSubgraph" input_stream: "INN:in" output_stream: "OUT:mid" }
node { calculator: "AddCalculator" input_stream: "mid" output_stream: "out" }
node { calculator: "AddCalculator" input_stream: "elsewhere" output_stream: "more" }"#;
    let shown = check(text, &environment());
    assert_eq!(shown.matches("error[").count(), 2, "{shown}");
    assert!(
        shown.contains("GM0805") && shown.contains("`elsewhere`"),
        "{shown}"
    );
}
