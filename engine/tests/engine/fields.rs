//! Every field of the format has a consequence: it changes what a graph is or does, or a diagnostic
//! says that it does not.

use std::collections::BTreeSet;

use graphmill_engine::{
    Calculator, Contract, Cx, Environment, Flow, In, NoOptions, OpenCx, Out, Packet, Registry,
    Result, Subgraph,
    testing::{Harness, check},
};
use graphmill_grammar::graph;

use Becomes::{Always, Effective, Inside, Refused, Warned};

/// What becomes of a field, shown by a graph with it and one without.
enum Becomes {
    /// The graphs differ in their plans or in what they do.
    Effective(&'static str, &'static str),
    /// The one with it gets a warning.
    Warned(&'static str, &'static str),
    /// The one with it is an error.
    Refused(&'static str, &'static str),
    /// The same happens without it; why.
    Always(&'static str),
    /// It is a part of a graph that is used as a node; the graphs are those of the subgraph.
    Inside(&'static str, &'static str),
}

const PASS: &str = r#"input_stream: "in" output_stream: "out"
    node { calculator: "HeavyCalculator" input_stream: "in" output_stream: "out" }"#;
const JOIN: &str = r#"input_stream: "a" input_stream: "b" max_queue_size: 2
    node { calculator: "RepeatCalculator" input_stream: "a" output_stream: "many" }
    node { calculator: "AddCalculator" input_stream: "many" input_stream: "b" output_stream: "sum" }"#;
const SOURCES: &str = r#"node { calculator: "CountCalculator" output_stream: "a" }
    node { calculator: "CountCalculator" output_stream: "b" }
    node { calculator: "ProbeCalculator" input_stream: "a" input_stream: "b" output_stream: "CALLS:out"
           input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" } }"#;
const LAYERS: &str = r#"node { calculator: "CountCalculator" output_stream: "a" source_layer: 1 }
    node { calculator: "CountCalculator" output_stream: "b" }
    node { calculator: "ProbeCalculator" input_stream: "a" input_stream: "b" output_stream: "CALLS:out"
           input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" } }"#;
const BATCH: &str = r#"input_stream: "in" output_stream: "out"
    node { calculator: "ProbeCalculator" input_stream: "in" output_stream: "CALLS:out"
           input_stream_handler { options { [mediapipe.DefaultInputStreamHandlerOptions.ext] { batch_size: 4 } } } }"#;
const ONE_BY_ONE: &str = r#"input_stream: "in" output_stream: "out"
    node { calculator: "ProbeCalculator" input_stream: "in" output_stream: "CALLS:out"
           input_stream_handler {} }"#;
const LOOP: &str = r#"input_stream: "in"
    node { calculator: "AddCalculator" input_stream: "in" input_stream: "old" output_stream: "sum" BACK
           input_stream_handler { input_stream_handler: "EarlyCloseInputStreamHandler" } }
    node { calculator: "DelayCalculator" input_stream: "sum" output_stream: "old" }"#;

const POOL: &str = r#"executor { name: "own" type: "ThreadPoolExecutor"
    options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 1 } } }"#;
const SIDE: &str = r#"input_stream: "in" output_stream: "out"
    node { calculator: "FromSideCalculator" input_stream: "in" input_side_packet: "VALUE:s" output_stream: "out" }"#;
const MAKE: &str = r#"input_stream: "in" output_stream: "out"
    node { calculator: "MakeSideCalculator" input_stream: "IN:in" output_side_packet: "OUT:t" }
    node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#;

/// The fields, message by message; `PASS + x` is written `+ x`, and `node + x` for a field of its
/// node.
#[rustfmt::skip]
const FIELDS: &[(&str, &str, Becomes)] = &[
    ("CalculatorGraphConfig", "node", Effective("", r#"+ node { calculator: "HeavyCalculator" input_stream: "out" output_stream: "more" }"#)),
    ("CalculatorGraphConfig", "packet_factory", Refused("", r#"+ packet_factory { packet_factory: "X" output_side_packet: "s" }"#)),
    ("CalculatorGraphConfig", "packet_generator", Refused("", r#"+ packet_generator { packet_generator: "X" output_side_packet: "s" }"#)),
    ("CalculatorGraphConfig", "num_threads", Effective("", "+ num_threads: 1")),
    ("CalculatorGraphConfig", "status_handler", Refused("", r#"+ status_handler { status_handler: "X" }"#)),
    ("CalculatorGraphConfig", "input_stream", Effective("", r#"+ input_stream: "more""#)),
    ("CalculatorGraphConfig", "max_queue_size", Effective("", "+ max_queue_size: 1")),
    ("CalculatorGraphConfig", "input_stream_handler", Effective("", r#"+ input_stream_handler { input_stream_handler: "BarrierInputStreamHandler" }"#)),
    ("CalculatorGraphConfig", "output_stream_handler", Warned("", r#"+ output_stream_handler { output_stream_handler: "InOrderOutputStreamHandler" }"#)),
    ("CalculatorGraphConfig", "executor", Effective(r#"node + executor: "own""#, r#"POOL node + executor: "own""#)),
    ("CalculatorGraphConfig", "output_stream", Effective(r#"input_stream: "in" node { calculator: "HeavyCalculator" input_stream: "in" output_stream: "out" }"#, "")),
    ("CalculatorGraphConfig", "input_side_packet", Inside(SIDE, r#"SIDE input_side_packet: "SIDE:s""#)),
    ("CalculatorGraphConfig", "output_side_packet", Inside(MAKE, r#"MAKE output_side_packet: "SIDE:t""#)),
    ("CalculatorGraphConfig", "profiler_config", Warned("", "+ profiler_config { trace_enabled: true }")),
    ("CalculatorGraphConfig", "package", Effective(r#"node { calculator: "Named" input_stream: "in" output_stream: "out" }"#, r#"package: "pack.age" node { calculator: "Named" input_stream: "in" output_stream: "out" }"#)),
    ("CalculatorGraphConfig", "type", Always("it is the name under which a program registers the file as a subgraph")),
    ("CalculatorGraphConfig", "report_deadlock", Effective(JOIN, "JOIN report_deadlock: true")),
    ("CalculatorGraphConfig", "runtime_info", Warned("", "+ runtime_info { enable_graph_runtime_info: true }")),
    ("CalculatorGraphConfig", "options", Effective(r#"SOURCES option_value: "to:options/n""#, "OPTIONS options { [x.Own.ext] { n: 1 } }")),
    ("CalculatorGraphConfig", "graph_options", Effective(r#"SOURCES option_value: "to:options/n""#, "OPTIONS graph_options { [type.x/x.Own] { n: 1 } }")),

    ("Node", "name", Effective("", r#"node + name: "own""#)),
    ("Node", "calculator", Effective("", r#"input_stream: "in" output_stream: "out" node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#)),
    ("Node", "input_stream", Effective("", r#"node + input_stream: "more""#)),
    ("Node", "output_stream", Effective("", r#"node + output_stream: "more""#)),
    ("Node", "input_side_packet", Effective("", r#"node + input_side_packet: "s""#)),
    ("Node", "output_side_packet", Effective("", r#"node + output_side_packet: "s""#)),
    ("Node", "options", Effective(SOURCES, "SOURCES options { [x.CountCalculatorOptions.ext] { to: 1 } }")),
    ("Node", "node_options", Effective(SOURCES, "SOURCES node_options { [type.x/CountCalculatorOptions] { to: 1 } }")),
    ("Node", "source_layer", Effective(SOURCES, "SOURCES source_layer: 1")),
    ("Node", "buffer_size_hint", Effective("+ max_queue_size: 1", "max_queue_size: 1 node + buffer_size_hint: 3")),
    ("Node", "input_stream_handler", Effective("", r#"node + input_stream_handler { input_stream_handler: "BarrierInputStreamHandler" }"#)),
    ("Node", "output_stream_handler", Refused("", r#"node + output_stream_handler { output_stream_handler: "Other" }"#)),
    ("Node", "input_stream_info", Effective(LOOP, "LOOP input_stream_info { tag_index: \":1\" back_edge: true }")),
    ("Node", "executor", Effective("POOL node +", r#"POOL node + executor: "own""#)),
    ("Node", "profiler_config", Warned("", "node + profiler_config { enable_profiler: true }")),
    ("Node", "max_in_flight", Warned("", "node + max_in_flight: 4")),
    ("Node", "option_value", Effective("OPTIONS options { [x.Own.ext] {} }", "OPTIONS options { [x.Own.ext] { n: 1 } }")),
    ("Node", "external_input", Warned("", r#"node + external_input: "s""#)),

    ("InputStreamInfo", "tag_index", Effective("LOOP input_stream_info { back_edge: true }", "LOOP input_stream_info { tag_index: \":1\" back_edge: true }")),
    ("InputStreamInfo", "back_edge", Effective("LOOP input_stream_info { tag_index: \":1\" }", "LOOP input_stream_info { tag_index: \":1\" back_edge: true }")),

    ("ExecutorConfig", "name", Effective("POOL node +", r#"POOL node + executor: "own""#)),
    ("ExecutorConfig", "type", Effective(r#"+ executor { name: "x" }"#, r#"+ executor { name: "x" type: "Other" }"#)),
    ("ExecutorConfig", "options", Effective("+ executor {}", "+ executor { options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 1 } } }")),

    ("InputStreamHandlerConfig", "input_stream_handler", Effective("node + input_stream_handler {}", r#"node + input_stream_handler { input_stream_handler: "BarrierInputStreamHandler" }"#)),
    ("InputStreamHandlerConfig", "options", Effective(ONE_BY_ONE, BATCH)),

    ("OutputStreamHandlerConfig", "output_stream_handler", Refused("", r#"node + output_stream_handler { output_stream_handler: "Other" }"#)),
    ("OutputStreamHandlerConfig", "input_side_packet", Warned("", r#"node + output_stream_handler { input_side_packet: "s" }"#)),
    ("OutputStreamHandlerConfig", "options", Warned("", "node + output_stream_handler { options {} }")),

    ("ProfilerConfig", "histogram_interval_size_usec", Warned("", "+ profiler_config { histogram_interval_size_usec: 5 }")),
    ("ProfilerConfig", "num_histogram_intervals", Warned("", "+ profiler_config { num_histogram_intervals: 5 }")),
    ("ProfilerConfig", "enable_input_output_latency", Warned("", "+ profiler_config { enable_input_output_latency: true }")),
    ("ProfilerConfig", "enable_profiler", Always("calls are counted and timed in every session")),
    ("ProfilerConfig", "enable_stream_latency", Warned("", "+ profiler_config { enable_stream_latency: true }")),
    ("ProfilerConfig", "use_packet_timestamp_for_added_packet", Warned("", "+ profiler_config { use_packet_timestamp_for_added_packet: true }")),
    ("ProfilerConfig", "trace_log_capacity", Warned("", "+ profiler_config { trace_log_capacity: 5 }")),
    ("ProfilerConfig", "trace_event_types_disabled", Warned("", "+ profiler_config { trace_event_types_disabled: 5 }")),
    ("ProfilerConfig", "trace_log_path", Warned("", r#"+ profiler_config { trace_log_path: "/" }"#)),
    ("ProfilerConfig", "trace_log_count", Warned("", "+ profiler_config { trace_log_count: 5 }")),
    ("ProfilerConfig", "trace_log_interval_usec", Warned("", "+ profiler_config { trace_log_interval_usec: 5 }")),
    ("ProfilerConfig", "trace_log_margin_usec", Warned("", "+ profiler_config { trace_log_margin_usec: 5 }")),
    ("ProfilerConfig", "trace_log_duration_events", Warned("", "+ profiler_config { trace_log_duration_events: true }")),
    ("ProfilerConfig", "trace_log_interval_count", Warned("", "+ profiler_config { trace_log_interval_count: 5 }")),
    ("ProfilerConfig", "trace_log_disabled", Warned("", "+ profiler_config { trace_log_disabled: true }")),
    ("ProfilerConfig", "trace_enabled", Warned("", "+ profiler_config { trace_enabled: true }")),
    ("ProfilerConfig", "trace_log_instant_events", Warned("", "+ profiler_config { trace_log_instant_events: true }")),
    ("ProfilerConfig", "calculator_filter", Warned("", r#"+ profiler_config { calculator_filter: "x" }"#)),

    ("GraphRuntimeInfoConfig", "enable_graph_runtime_info", Warned("", "+ runtime_info { enable_graph_runtime_info: true }")),
    ("GraphRuntimeInfoConfig", "capture_period_msec", Warned("", "+ runtime_info { capture_period_msec: 5 }")),
];

/// Messages that are refused as a whole.
const REFUSED: [&str; 3] = [
    "PacketGeneratorConfig",
    "PacketFactoryConfig",
    "StatusHandlerConfig",
];

/// A calculator in a namespace.
struct Named;

impl Calculator for Named {
    const NAME: &'static str = "pack.age.Named";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        cx.forward(input, output);
        Ok(Flow::Continue)
    }
}

/// Writes a graph out in full.
fn expand(short: &str) -> String {
    let node = |rest: &str| PASS.replace("\"out\" }", &format!("\"out\" {rest} }}"));
    let source = |rest: &str| {
        SOURCES.replacen(
            "output_stream: \"a\" ",
            &format!("output_stream: \"a\" {rest} "),
            1,
        )
    };
    match short.split_once(' ').unwrap_or((short, "")) {
        ("", _) => PASS.to_owned(),
        ("+", rest) => format!("{PASS} {rest}"),
        ("node", rest) if rest.starts_with('+') => node(&rest[1..]),
        ("POOL", rest) => format!("{POOL} {}", expand(rest)),
        ("max_queue_size:", rest) => {
            let (size, rest) = rest.split_once(' ').expect("a size and a graph");
            format!("max_queue_size: {size} {}", expand(rest))
        }
        ("SOURCES", rest) => source(rest),
        ("OPTIONS", rest) => {
            let takes = r#"option_value: "to:options/n" node_options { [type.x/CountCalculatorOptions] { to: 2 } }"#;
            format!("{rest} {}", source(takes))
        }
        ("LOOP", rest) => LOOP.replace("BACK", rest),
        ("JOIN", rest) => format!("{JOIN} {rest}"),
        ("SIDE", rest) => format!("{SIDE} {rest}"),
        ("MAKE", rest) => format!("{MAKE} {rest}"),
        _ => short.replace("BACK", ""),
    }
}

fn environment() -> Environment {
    crate::engine::nodes::environment_with(Registry::new().with::<Named>())
}

/// The mistakes in a graph, without their places.
fn findings(text: &str, environment: &Environment) -> Vec<String> {
    let shown = check(text, environment);
    let is_headline = |line: &&str| line.starts_with("warning[") || line.starts_with("error[");
    shown
        .lines()
        .filter(is_headline)
        .map(str::to_owned)
        .collect()
}

/// What a graph is and does: its plan, how much its inputs take at once, and what comes out.
fn behavior(text: &str, environment: Environment) -> String {
    let found = findings(text, &environment);
    if found.iter().any(|finding| finding.starts_with("error")) {
        return found.join("\n");
    }
    let mut h = Harness::new(text, environment).side("s", 5_i64);
    let plan = h.start().plan().clone();
    let inputs: Vec<&str> = plan.graph_inputs().collect();
    let mut taken = 0;
    for time in 0..5_i64 {
        for input in &inputs {
            taken += usize::from(h.handle().try_push(input, Packet::new(time, time)).is_ok());
        }
    }
    h.settle();
    let stuck = h.ended();
    if !stuck {
        h.close_all();
    }
    h.block_until(Harness::ended);
    let outputs: Vec<Vec<Packet>> = plan
        .explain()
        .nodes
        .iter()
        .flat_map(|node| &node.outputs)
        .map(|port| h.packets(&port.name))
        .collect();
    let explain = serde_json::to_string(plan.explain()).expect("it serializes");
    let shown: Vec<String> = outputs
        .iter()
        .flatten()
        .map(|packet| match packet.get::<String>() {
            Some(text) => format!("{packet:?} {text}"),
            None => format!("{packet:?}"),
        })
        .collect();
    format!("{found:?} {explain} {taken} {stuck} {shown:?}")
}

/// The same for a graph as a node of another.
fn inside(text: &str) -> String {
    let inner = Subgraph {
        name: "InnerSubgraph".into(),
        file: "inner.pbtxt".into(),
        text: text.to_owned().into(),
        primary: None,
        doc: "".into(),
    };
    let port = if text.contains("calculator: \"MakeSideCalculator\"") {
        "output_side_packet: \"SIDE:made\""
    } else {
        "input_side_packet: \"SIDE:s\""
    };
    let outer = format!(
        r#"node {{ calculator: "InnerSubgraph" input_stream: "in" output_stream: "out" {port} }}"#
    );
    let registry = Registry::new().with::<Named>().with_subgraph(inner);
    behavior(&outer, crate::engine::nodes::environment_with(registry))
}

#[test]
fn every_field_of_the_format_has_a_consequence() {
    let known: BTreeSet<(&str, &str)> = FIELDS.iter().map(|(of, field, _)| (*of, *field)).collect();
    for (message, fields) in graph::MESSAGES {
        for field in fields.iter().filter(|_| !REFUSED.contains(message)) {
            assert!(
                known.contains(&(*message, *field)),
                "what becomes of `{field}` of `{message}`?"
            );
        }
    }
    for (message, field, becomes) in FIELDS {
        let (without, with) = match becomes {
            Effective(without, with) | Warned(without, with) | Refused(without, with) => {
                let (without, with) = (expand(without), expand(with));
                (
                    behavior(&without, environment()),
                    behavior(&with, environment()),
                )
            }
            Inside(without, with) => (inside(&expand(without)), inside(&expand(with))),
            Always(reason) => {
                assert!(!reason.is_empty());
                continue;
            }
        };
        assert_ne!(without, with, "`{field}` of `{message}` changes nothing");
        let expected = match becomes {
            Warned(..) => "warning[",
            Refused(..) => "error[",
            Effective(..) | Inside(..) | Always(_) => "",
        };
        assert!(with.contains(expected), "`{field}` of `{message}`: {with}");
    }
    assert_ne!(
        behavior(LAYERS, environment()),
        behavior(SOURCES, environment())
    );
}

#[test]
fn the_reference_lists_every_field() {
    let page = include_str!("../../../docs/reference/graph-fields.md");
    for (message, fields) in graph::MESSAGES {
        let section = page
            .split("\n## ")
            .find(|section| section.starts_with(&format!("`{message}`")))
            .unwrap_or_else(|| panic!("no section about `{message}`"));
        for field in *fields {
            assert!(
                section.contains(&format!("| `{field}` |")),
                "`{field}` of `{message}` is missing"
            );
        }
        let rows = section
            .lines()
            .filter(|line| line.starts_with("| `"))
            .count();
        assert_eq!(rows, fields.len(), "rows about `{message}`");
    }
}

#[test]
fn fields_that_change_nothing_are_named() {
    insta::assert_snapshot!(check(
        r#"output_stream: "out" input_stream: "in" max_queue_size: -4
runtime_info { enable_graph_runtime_info: true }
packet_generator { packet_generator: "Old" input_side_packet: "A:a" output_side_packet: "B:b" }
packet_factory { packet_factory: "Older" output_side_packet: "c" }
node { calculator: "AddCalculator" input_stream: "in" output_stream: "out" source_layer: 1 max_in_flight: -1
       options { merge_fields: true } }"#,
        &environment()
    ));
}
