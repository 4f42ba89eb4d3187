//! Any graph makes a plan, or errors that point into its file: never a panic, never nothing, never
//! for long.

use graphmill_engine::{
    Calculator, Contract, Cx, Environment, Flow, Group, NoOptions, OpenCx, Payload, Plan, Policy,
    Registry, Result, Subgraph,
};
use graphmill_grammar::{Diagnostic, GraphConfig, SourceMap, diag::has_errors, parse_graph};
use proptest::prelude::*;

use crate::engine::nodes;

/// Compiles a text, and checks what must hold for any.
fn compiled(text: &str, environment: &Environment) -> (bool, Vec<Diagnostic>) {
    let mut sources = SourceMap::new();
    let parsed = parse_graph(&mut sources, "graph.pbtxt", text);
    let mut diagnostics = parsed.diagnostics;
    let mut plan = None;
    if let Some(graph) = &parsed.graph {
        let (compiled, found) = Plan::compile(graph, &mut sources, environment);
        assert_eq!(
            compiled.is_some(),
            !has_errors(&diagnostics) && !has_errors(&found),
            "{text}\n{found:#?}"
        );
        plan = compiled;
        diagnostics.extend(found);
    }
    assert!(plan.is_some() || has_errors(&diagnostics), "{text}");
    for diagnostic in &diagnostics {
        let hints = diagnostic.hints.iter().flat_map(|hint| &hint.edits);
        let labels = std::iter::once(&diagnostic.primary).chain(&diagnostic.secondary);
        for span in labels
            .map(|label| label.span)
            .chain(hints.map(|edit| edit.span))
        {
            let file = sources.text(span.file);
            assert!(file.get(span.range()).is_some(), "{diagnostic:#?}");
        }
    }
    (plan.is_some(), diagnostics)
}

/// One field of a node, more often right than wrong.
fn field() -> impl Strategy<Value = String> {
    let name = || prop::sample::select(vec!["in", "a", "b", "c", "d", "out", "inn", "X"]);
    let port = (
        prop::sample::select(vec![
            "", "", "", "TEXT:", "CALLS:", "A:", "A:1:", "OUT:", "VALUE:",
        ]),
        name(),
    );
    let port = port.prop_map(|(tag, name)| format!("{tag}{name}"));
    let kinds = vec![
        "input_stream",
        "input_stream",
        "output_stream",
        "output_stream",
        "input_side_packet",
        "output_side_packet",
    ];
    let ports =
        (prop::sample::select(kinds), port).prop_map(|(kind, port)| format!("{kind}: \"{port}\""));
    let rest = prop::sample::select(vec![
        "input_stream_info { tag_index: \":0\" back_edge: true }",
        "input_stream_info { tag_index: \":1\" back_edge: true }",
        "input_stream_info { tag_index: \"TEXT\" back_edge: true }",
        "input_stream_handler { input_stream_handler: \"ImmediateInputStreamHandler\" }",
        "input_stream_handler { input_stream_handler: \"BarrierInputStreamHandler\" }",
        "input_stream_handler { input_stream_handler: \"SyncSetInputStreamHandler\" options { \
         [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: \":1\" } } } }",
        "executor: \"cpu\"",
        "executor: \"pool\"",
        "source_layer: 1",
        "max_in_flight: 2",
        "name: \"same\"",
        "node_options { [type.x/mediapipe.CountCalculatorOptions] { to: 4 } }",
        "options { [mediapipe.FailCalculatorOptions.ext] { at: 4 } }",
        "colour: 3",
    ]);
    let rest = rest.prop_map(str::to_owned);
    prop_oneof![8 => ports, 2 => rest]
}

fn node() -> impl Strategy<Value = String> {
    let calculators = vec![
        "PassThroughCalculator",
        "AddCalculator",
        "DelayCalculator",
        "CountCalculator",
        "ProbeCalculator",
        "LengthCalculator",
        "MakeSideCalculator",
        "FromSideCalculator",
        "HintCalculator",
        "PassTroughCalculator",
        "TwoSubgraph",
        "SelfSubgraph",
    ];
    let fields = prop::collection::vec(field(), 0..6);
    (prop::sample::select(calculators), fields).prop_map(|(calculator, fields)| {
        format!(
            "node {{ calculator: \"{calculator}\" {} }}\n",
            fields.join(" ")
        )
    })
}

fn graph() -> impl Strategy<Value = String> {
    let heads = vec![
        "input_stream: \"in\"\n",
        "output_stream: \"out\"\n",
        "input_side_packet: \"a\"\n",
        "max_queue_size: 3\n",
        "num_threads: 2\n",
        "executor { name: \"pool\" type: \"ThreadPoolExecutor\" }\n",
        "input_stream_handler { input_stream_handler: \"MuxInputStreamHandler\" }\n",
    ];
    let head = prop::sample::subsequence(heads, 0..=7);
    let nodes = prop::collection::vec(node(), 0..8);
    (head, nodes).prop_map(|(head, nodes)| format!("{}{}", head.concat(), nodes.concat()))
}

fn with_subgraphs() -> Environment {
    let subgraph = |name: &'static str, text: &'static str| Subgraph {
        name: name.into(),
        file: format!("{name}.pbtxt").into(),
        text: text.into(),
        primary: None,
        doc: "".into(),
    };
    let two = "input_stream: \"a\" output_stream: \"b\" \
               node { calculator: \"AddCalculator\" input_stream: \"a\" output_stream: \"m\" } \
               node { calculator: \"AddCalculator\" input_stream: \"m\" output_stream: \"b\" }";
    let own = "input_stream: \"a\" node { calculator: \"SelfSubgraph\" input_stream: \"a\" }";
    let registry = nodes::environment().registry().clone();
    Environment::new(
        registry
            .with_subgraph(subgraph("TwoSubgraph", two))
            .with_subgraph(subgraph("SelfSubgraph", own)),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_graph_makes_a_plan_or_errors(text in graph()) {
        compiled(&text, &with_subgraphs());
    }

    #[test]
    fn any_damaged_graph_makes_a_plan_or_errors(
        text in graph(),
        at in any::<prop::sample::Index>(),
        length in 0..30_usize,
        instead in "[a-z{}:\" \\[\\]0-9A-Z_]{0,6}",
    ) {
        let start = at.index(text.len() + 1);
        let end = (start + length).min(text.len());
        let mut text = text;
        text.replace_range(start..end, &instead);
        compiled(&text, &with_subgraphs());
    }
}

#[test]
fn a_file_with_a_mistake_in_its_syntax_makes_no_plan() {
    let text = "input_stream_handler { input_stream_handler\"MuxInputStreamHandler\" }\n\
                input_stream: \"in\" node { calculator: \"AddCalculator\" input_stream: \"in\" output_stream: \"b\" }";
    assert!(!compiled(text, &with_subgraphs()).0);
}

/// A graph as a text of `count` nodes, each made by `node` from its number.
fn large(count: usize, node: impl Fn(usize) -> String) -> String {
    let nodes: String = (0..count).map(node).collect();
    format!("input_stream: \"s0\"\n{nodes}")
}

const MANY: usize = 10_000;

#[test]
fn large_graphs_compile() {
    let chain = large(MANY, |i| {
        let next = i + 1;
        format!(
            "node {{ calculator: \"AddCalculator\" input_stream: \"s{i}\" output_stream: \"s{next}\" }}\n"
        )
    });
    let backwards = large(MANY, |i| {
        let (from, to) = (MANY - 1 - i, MANY - i);
        format!(
            "node {{ calculator: \"AddCalculator\" input_stream: \"s{from}\" output_stream: \"s{to}\" }}\n"
        )
    });
    let fan_out = large(MANY, |i| {
        format!(
            "node {{ calculator: \"AddCalculator\" input_stream: \"s0\" output_stream: \"t{i}\" }}\n"
        )
    });
    let loops = large(MANY, |i| {
        let next = i + 1;
        format!(
            "node {{ calculator: \"AddCalculator\" input_stream: \"s{i}\" input_stream: \"s{next}\" output_stream: \"s{next}\" \
             input_stream_info {{ tag_index: \":1\" back_edge: true }} }}\n"
        )
    });
    let inputs: String = (0..MANY).map(|_| "input_stream: \"s0\" ").collect();
    let wide = large(1, |_| {
        format!("node {{ calculator: \"AddCalculator\" {inputs} output_stream: \"sum\" }}\n")
    });
    for text in [chain, backwards, fan_out, loops, wide] {
        let (has_plan, diagnostics) = compiled(&text, &nodes::environment());
        assert!(has_plan, "{:#?}", diagnostics.first());
    }
}

#[test]
fn large_wrong_graphs_are_refused() {
    let misspelt = large(MANY, |i| {
        format!(
            "node {{ calculator: \"AddCalculator\" input_stream: \"s_{i}\" output_stream: \"t_{i}\" }}\n"
        )
    });
    let unknown = large(MANY, |i| {
        format!("node {{ calculator: \"Ad{i}Calculator\" output_stream: \"t_{i}\" }}\n")
    });
    let cycle = large(MANY, |i| {
        let next = (i + 1) % MANY;
        format!(
            "node {{ calculator: \"AddCalculator\" input_stream: \"t{i}\" output_stream: \"t{next}\" }}\n"
        )
    });
    let info = |i| format!("input_stream: \"s0\" input_stream_info {{ tag_index: \"T:{i}\" }}");
    let infos = (0..MANY).map(info).collect::<Vec<_>>().join(" ");
    let no_inputs = large(1, |_| {
        format!("node {{ calculator: \"AddCalculator\" {infos} output_stream: \"a\" }}")
    });
    for text in [misspelt, unknown, cycle, no_inputs] {
        let (has_plan, diagnostics) = compiled(&text, &nodes::environment());
        assert!(!has_plan);
        assert!(diagnostics.len() <= 102, "{}", diagnostics.len());
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let nodes = large(70_000, |_| {
        "node { calculator: \"AddCalculator\" }\n".to_owned()
    });
    let inputs = "input_stream: \"s0\" ".repeat(70_000);
    let ports = large(1, |_| {
        format!("node {{ calculator: \"AddCalculator\" {inputs} output_stream: \"a\" }}")
    });
    for text in [nodes, ports] {
        let (_, diagnostics) = compiled(&text, &nodes::environment());
        let numbers: Vec<u16> = diagnostics.iter().map(|it| it.code.number).collect();
        assert_eq!(numbers, [807]);
    }
}

#[test]
fn subgraphs_that_double_at_every_level_are_refused() {
    let mut registry = nodes::environment().registry().clone();
    for level in 0..40 {
        let inner = if level == 0 {
            "AddCalculator".to_owned()
        } else {
            format!("Level{}Subgraph", level - 1)
        };
        let text = format!(
            "input_stream: \"a\" output_stream: \"b\" \
             node {{ calculator: \"{inner}\" input_stream: \"a\" output_stream: \"m\" }} \
             node {{ calculator: \"{inner}\" input_stream: \"m\" output_stream: \"b\" }}"
        );
        registry = registry.with_subgraph(Subgraph {
            name: format!("Level{level}Subgraph").into(),
            file: format!("level_{level}.pbtxt").into(),
            text: text.into(),
            primary: None,
            doc: "".into(),
        });
    }
    let environment = Environment::new(registry);
    let graph = |level: u32| {
        format!(
            "input_stream: \"in\" output_stream: \"out\" \
             node {{ calculator: \"Level{level}Subgraph\" input_stream: \"in\" output_stream: \"out\" }}"
        )
    };
    assert!(compiled(&graph(9), &environment).0);
    let (_, diagnostics) = compiled(&graph(39), &environment);
    let numbers: Vec<u16> = diagnostics.iter().map(|it| it.code.number).collect();
    assert_eq!(numbers, [807]);
}

/// Stands in for any calculator: all ports are there, and take anything.
struct Any;

impl Calculator for Any {
    const NAME: &'static str = "AnyCalculator";
    type Options = NoOptions;
    type Ports = ();

    fn contract(c: &mut Contract, _: &NoOptions) {
        for tag in c.tags(Group::Inputs) {
            c.optional_inputs::<dyn Payload>(&tag);
        }
        for tag in c.tags(Group::Outputs) {
            c.optional_outputs::<dyn Payload>(&tag);
        }
        for tag in c.tags(Group::InputSides) {
            c.optional_sides::<dyn Payload>(&tag);
        }
        for tag in c.tags(Group::OutputSides) {
            c.optional_output_sides::<dyn Payload>(&tag);
        }
    }

    fn open(_: &NoOptions, (): (), _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (): (), _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Continue)
    }
}

/// Stands in for calculators that close loops by themselves and say how in their contract.
struct Closes;

impl Calculator for Closes {
    const NAME: &'static str = "ClosesCalculator";
    type Options = NoOptions;
    type Ports = ();

    fn contract(c: &mut Contract, options: &NoOptions) {
        c.policy(Policy::Immediate);
        Any::contract(c, options);
    }

    fn open(_: &NoOptions, (): (), _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (): (), _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Continue)
    }
}

/// Puts the stand-ins in the place of all calculators, and takes off what their options would say.
fn stand_in(graph: &mut GraphConfig) {
    for node in &mut graph.node {
        node.options = None;
        node.node_options.clear();
        node.option_value.clear();
        node.executor = None;
        let Some(calculator) = &mut node.calculator else {
            continue;
        };
        let closes = ["FlowLimiter", "Loopback", "LLM", "AnchorManager"];
        let name = if closes.iter().any(|part| calculator.value.contains(part)) {
            Closes::NAME
        } else {
            Any::NAME
        };
        name.clone_into(&mut calculator.value);
    }
}

/// Warnings about what a graph does when it runs. Real graphs run.
const ABOUT_RUNNING: [u16; 6] = [311, 312, 508, 604, 605, 606];

#[test]
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
fn real_graphs_raise_no_false_alarms() {
    let shared = std::env::var_os("GRAPHMILL_SHARED").map_or_else(
        || std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
        std::path::PathBuf::from,
    );
    let Ok(index) = std::fs::read_to_string(shared.join("corpus/INDEX.tsv")) else {
        println!("skipped: {} is absent", shared.join("corpus").display());
        return;
    };
    let environment = Environment::new(Registry::new().with::<Any>().with::<Closes>());
    let mut alarms = Vec::new();
    for line in index.lines().filter(|line| line.contains("\tgraph")) {
        let path = line.split('\t').next().unwrap_or_default();
        let text = std::fs::read(shared.join("corpus").join(path)).expect("a file of the index");
        let mut sources = SourceMap::new();
        let parsed = parse_graph(&mut sources, path, text);
        let mut graph = parsed.graph.expect("a graph");
        stand_in(&mut graph);
        let (_, diagnostics) = Plan::compile(&graph, &mut sources, &environment);
        alarms.extend(
            diagnostics
                .into_iter()
                .filter(|it| ABOUT_RUNNING.contains(&it.code.number))
                .map(|it| format!("{path}: {} {}", it.code, it.message)),
        );
    }
    assert!(alarms.is_empty(), "{}", alarms.join("\n"));
}
