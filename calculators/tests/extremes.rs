//! Extreme numbers in every option of every node: a graph with one is refused at the place of the
//! number, or it compiles, loads its model and begins.

use std::{
    fs,
    future::Future as _,
    pin::Pin,
    task::{Context, Waker},
};

use graphmill_engine::{Environment, Plan, Registry, RunCx, Session, SidePackets};
use graphmill_grammar::{
    Diagnostic, GraphConfig, OptionsMessage, SourceMap, Span, Spanned, graph::OptionsKind, parse,
    parse_graph,
};
use serde_json::Value;

use crate::{MODEL, environment, examples, sources::all_files};

const NUMBERS: [&str; 20] = [
    "0",
    "-1",
    "1",
    "0.5",
    "65535",
    "65536",
    "1000000",
    "1000000000",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e300",
    "inf",
    "nan",
];

/// The options of a schema that are numbers, or lists of them: names from the outermost message
/// inward.
fn numbers(root: &Value, schema: &Value, path: &[String], found: &mut Vec<Vec<String>>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let definition = root.pointer(&reference[1..]).expect("it is defined");
        return numbers(root, definition, path, found);
    }
    let kinds = schema["type"].to_string();
    if kinds.contains("\"integer\"") || kinds.contains("\"number\"") {
        found.push(path.to_vec());
    }
    let alternatives = schema["anyOf"].as_array().into_iter().flatten();
    for inner in alternatives.chain(schema.get("items")) {
        numbers(root, inner, path, found);
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let mut path = path.to_vec();
        path.push(name.clone());
        numbers(root, inner, &path, found);
    }
}

/// Sets one option of the nodes of a calculator, and returns the place of the number.
fn set(
    graph: &mut GraphConfig,
    calculator: &str,
    message: &str,
    path: &[String],
    number: &str,
) -> Span {
    let (last, outer) = path.split_last().expect("a name");
    let mut text = format!("{last}: {number}");
    for name in outer.iter().rev() {
        text = format!("{name} {{ {text} }}");
    }
    let at = text.rfind(number).expect("it is written");
    let mut sources = SourceMap::new();
    let file = sources.add("option", text);
    let mut fields = parse(&sources, file).0.root.fields;
    let nodes = graph.node.iter_mut();
    for node in nodes.filter(|node| {
        node.calculator
            .as_ref()
            .is_some_and(|it| it.value == calculator)
    }) {
        let extensions = node.options.as_mut().map(|options| &mut options.messages);
        let mut given: Vec<_> = extensions
            .into_iter()
            .flatten()
            .chain(&mut node.node_options)
            .collect();
        if let Some(options) = given.first_mut() {
            let same = |name: &str| name == path[0];
            options
                .body
                .fields
                .retain(|field| !same(field.name.as_str()));
            options.body.fields.append(&mut fields);
            continue;
        }
        let mut options = OptionsMessage {
            name: Spanned::new(message.to_owned(), node.head),
            kind: OptionsKind::Any,
            body: parse(&sources, file).0.root,
        };
        options.body.delimiters = None;
        node.node_options.push(options);
    }
    Span::new(file, at..at + number.len())
}

fn parsed(text: &str) -> GraphConfig {
    let mut sources = SourceMap::new();
    let graph = parse_graph(&mut sources, "example", text);
    graph.into_result().expect("a graph").0
}

/// Compiles a graph and lets a session begin.
fn attempt(graph: &GraphConfig, environment: &Environment) -> Result<(), Vec<Diagnostic>> {
    let (plan, found) = Plan::compile(graph, &mut SourceMap::new(), environment);
    let Some(plan) = plan else {
        return Err(found);
    };
    // One that lacks side packets or a model does not begin.
    if let Ok((mut session, _handle)) = Session::new(&plan, RunCx::new("x"), SidePackets::new()) {
        let mut cx = Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut session).poll(&mut cx);
    }
    Ok(())
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("Linux").count()
}

#[test]
fn every_number_of_every_node_is_refused_or_begins() {
    let registry = Registry::global();
    let mut graphs = Vec::new();
    for file in all_files() {
        graphs.extend(examples(&fs::read_to_string(&file).expect("a source file")));
    }
    let (mut tried, before) = (0, threads());
    for node in registry.describe() {
        let mut paths = Vec::new();
        let schema = node.options.as_value();
        numbers(schema, schema, &[], &mut paths);
        let used = format!("calculator: \"{}\"", node.name);
        // One of its kind has an example; its options are theirs.
        let Some(example) = graphs.iter().find(|graph| graph.contains(&used)) else {
            continue;
        };
        let model =
            example.contains("LLM_NODE_RESOURCES") && !example.contains("LLMCalculatorOptions");
        let example = parsed(&format!("{example}{}", if model { MODEL } else { "" }));
        for path in &paths {
            for number in NUMBERS {
                let mut graph = example.clone();
                let place = set(&mut graph, node.name, &node.option_names[0], path, number);
                if let Err(found) = attempt(&graph, &environment()) {
                    // Some options need another one beside them.
                    let names = |found: &Diagnostic| {
                        found.primary.span == place
                            || found.message.contains("needs the option")
                            || path
                                .iter()
                                .any(|name| found.message.contains(name.as_str()))
                    };
                    assert!(
                        found.iter().any(names),
                        "{} {path:?}: {number}: {found:?}",
                        node.name
                    );
                }
                tried += 1;
            }
        }
    }
    assert!(tried > 1_000, "{tried}");
    assert!(
        threads() <= before + 64,
        "{} threads, {before} before",
        threads()
    );
}

#[test]
fn a_model_with_any_numbers_that_are_accepted_is_loaded() {
    let folder = std::env::temp_dir().join(format!("graphmill-extremes-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("writable");
    let script = folder.join("model.script.json");
    fs::write(&script, r#"{"name": "m", "replies": [{"text": "x"}]}"#).expect("writable");
    let example = parsed(&MODEL.replace("\"./\"", &format!("{script:?}")));
    let registry = Registry::global();
    let mut all = registry.describe().into_iter();
    let node = all
        .find(|node| node.name == "LLMCalculator")
        .expect("it is registered");
    let schema = node.options.as_value();
    let mut paths = Vec::new();
    numbers(schema, schema, &[], &mut paths);
    let mut loaded = 0;
    for path in &paths {
        for number in NUMBERS {
            let mut graph = example.clone();
            set(&mut graph, node.name, &node.option_names[0], path, number);
            loaded += usize::from(attempt(&graph, &Environment::new(Registry::global())).is_ok());
        }
    }
    fs::remove_dir_all(&folder).expect("writable");
    assert!(loaded > 100, "{loaded}");
}
