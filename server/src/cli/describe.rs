//! `graphmill describe`: all that is known of one calculator, container or subgraph, from the
//! registry of this binary; or what the engines of a graph run with.

use std::{
    fmt::Write as _,
    io::{self, ErrorKind, Write as _},
    path::Path,
    process::ExitCode,
};

use clap::Args;
use graphmill_calculators::llm::LanguageModel;
#[cfg(feature = "onnx")]
use graphmill_calculators::onnx::OnnxModel;
use graphmill_calculators::tensor::batch::Batcher;
use graphmill_engine::{
    Environment, Plan, Registry, Subgraph,
    registry::{Description, PortDescription},
};
use graphmill_grammar::suggest;
use graphmill_llm::LlmEngineInfo;
use serde_json::{Value, json};

use super::{Format, report};
use crate::{catalog, config::subgraphs::Named, servable::compile};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Arguments {
    /// The name of a calculator or subgraph; or a graph file, whose models are loaded to tell what
    /// their engines run with, which tensors they take and give, and how they are batched.
    name: String,
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let name = &arguments.name;
    if Path::new(name)
        .extension()
        .is_some_and(|end| end == "pbtxt")
    {
        return describe_engines(Path::new(name), arguments.format);
    }
    let registry = Registry::global();
    let calculator = registry
        .describe()
        .into_iter()
        .find(|found| found.name == name);
    let subgraph = registry.subgraphs().find(|found| found.name == *name);
    let text = match (calculator, subgraph, arguments.format) {
        (Some(calculator), _, Format::Text) => calculator_text(&calculator),
        (Some(calculator), _, Format::Json) => format!("{:#}\n", json!(calculator)),
        (None, Some(subgraph), Format::Text) => subgraph_text(subgraph),
        (None, Some(subgraph), Format::Json) => format!("{:#}\n", catalog::subgraph_json(subgraph)),
        (None, None, _) => {
            let why = no_graph(Path::new(name)).unwrap_or_else(|| unknown(&registry, name));
            report::error(&why);
            return ExitCode::FAILURE;
        }
    };
    // Fails when the reader has read enough, as `head` does.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// Loads the models of a graph and tells the effective values of their engines.
fn describe_engines(graph: &Path, format: Format) -> ExitCode {
    let environment = Environment::new(Registry::global());
    let base = graph.parent().unwrap_or(Path::new(""));
    let compiled = match compile(graph, base, &environment, &Named::default()) {
        Ok(compiled) => compiled,
        Err(message) => {
            report::error(&message);
            return ExitCode::FAILURE;
        }
    };
    report::show(&compiled.sources, &compiled.diagnostics);
    let Some(plan) = compiled.plan else {
        return ExitCode::FAILURE;
    };
    let models = plan.resources::<LanguageModel>();
    let engines: Vec<LlmEngineInfo> = models
        .iter()
        .map(|model| model.engine().info().clone())
        .collect();
    let mut described: Vec<(String, Value)> = engines
        .iter()
        .map(|engine| (engine.to_string(), json!(engine)))
        .collect();
    described.extend(onnx_models(&plan));
    let batchers = plan.resources::<Batcher>();
    let batchers = batchers.iter().map(|batcher| batcher.info());
    described.extend(batchers.map(|info| (info.to_string(), json!(info))));
    let (blocks, values): (Vec<String>, Vec<Value>) = described.into_iter().unzip();
    let text = match format {
        Format::Text if blocks.is_empty() => "the graph has no model\n".to_owned(),
        Format::Text => blocks.join("\n\n") + "\n",
        Format::Json => format!("{:#}\n", json!(values)),
    };
    // Fails when the reader has read enough, as `head` does.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// The tensors of a graph's models of tensors.
#[cfg(feature = "onnx")]
fn onnx_models(plan: &Plan) -> Vec<(String, Value)> {
    let models = plan.resources::<OnnxModel>();
    let described = models
        .iter()
        .map(|model| (model.to_string(), json!(**model)));
    described.collect()
}

#[cfg(not(feature = "onnx"))]
fn onnx_models(_: &Plan) -> Vec<(String, Value)> {
    Vec::new()
}

/// Why a path is not one of a graph file; `None` for what does not look like a path.
fn no_graph(path: &Path) -> Option<String> {
    let name = path.display();
    let is_written_as_path = path.components().count() > 1
        || path.has_root()
        || path.extension().is_some_and(|end| end == "json");
    match path.metadata() {
        Ok(found) if found.is_dir() => Some(format!(
            "`{name}` is a directory: expected the name of a calculator, or a graph file"
        )),
        Ok(_) => Some(format!(
            "`{name}` is no graph file: these end with `.pbtxt`"
        )),
        Err(_) if !is_written_as_path => None,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("`{name}` does not exist"))
        }
        Err(error) => Some(format!("cannot read `{name}`: {error}")),
    }
}

fn unknown(registry: &Registry, name: &str) -> String {
    let described = registry.describe();
    let subgraphs = registry.subgraphs().map(|found| &*found.name);
    let names: Vec<&str> = described
        .iter()
        .map(|found| found.name)
        .chain(subgraphs)
        .collect();
    let near: Vec<String> = near_names(name, &names)
        .into_iter()
        .map(|near| format!("`{near}`"))
        .collect();
    match near.as_slice() {
        [] => format!(
            "no calculator is called `{name}`; `graphmill calculators` lists all that there are: is the crate that registers it named in this binary (`use crate_name as _;`)?"
        ),
        [near] => format!("no calculator is called `{name}`; did you mean {near}?"),
        [first @ .., last] => format!(
            "no calculator is called `{name}`; did you mean {} or {last}?",
            first.join(", ")
        ),
    }
}

/// The names that may be meant by one that does not exist, the likeliest first: one that differs by
/// a slip of the keys, then those that have it in them.
fn near_names<'a>(name: &str, names: &[&'a str]) -> Vec<&'a str> {
    const MOST: usize = 5;
    // Nearly all names end alike, which says nothing of how near they are.
    let stem = |name: &'a str| name.strip_suffix("Calculator").unwrap_or(name);
    let wanted = name.strip_suffix("Calculator").unwrap_or(name);
    let begins_alike = |other: &&str| {
        other
            .get(..3)
            .zip(name.get(..3))
            .is_some_and(|(a, b)| a.eq_ignore_ascii_case(b))
    };
    let slip = suggest::nearest(wanted, names.iter().map(|name| stem(name)));
    let slip = slip.or_else(|| {
        let alike = names.iter().copied().filter(begins_alike);
        suggest::nearest(name, alike).map(stem)
    });
    let part = wanted.to_lowercase();
    let has_it = |other: &&&str| part.len() > 1 && other.to_lowercase().contains(&part);
    let mut near: Vec<&str> = names
        .iter()
        .filter(|other| slip == Some(stem(other)))
        .chain(names.iter().filter(has_it))
        .copied()
        .collect();
    let mut seen = std::collections::HashSet::new();
    near.retain(|name| seen.insert(*name));
    near.truncate(MOST);
    near
}

fn subgraph_text(subgraph: &Subgraph) -> String {
    let mut out = format!("{} (subgraph)\n", subgraph.name);
    paragraph(&mut out, 2, &subgraph.doc);
    if let Some(primary) = &subgraph.primary {
        paragraph(
            &mut out,
            2,
            &format!(
                "Its node `{primary}` gets the options, the input policy and the executor of the node."
            ),
        );
    }
    out.push_str("\n  Expands to\n");
    paragraph(&mut out, 4, &subgraph.text);
    out
}

fn calculator_text(calculator: &Description) -> String {
    let mut out = format!("{}\n", calculator.name);
    paragraph(&mut out, 2, calculator.doc);
    paragraph(&mut out, 2, &behavior(calculator));
    for (kind, title) in [
        ("input_stream", "Input streams"),
        ("output_stream", "Output streams"),
        ("input_side_packet", "Input side packets"),
        ("output_side_packet", "Output side packets"),
    ] {
        ports(
            &mut out,
            title,
            calculator
                .ports
                .iter()
                .filter(|port| port.kind == kind)
                .collect(),
        );
    }
    options(&mut out, calculator);
    out.push_str("\n  In a graph\n");
    paragraph(&mut out, 4, &example(calculator));
    out
}

/// When and where it runs, in a sentence.
fn behavior(calculator: &Description) -> String {
    let Some(policy) = &calculator.policy else {
        return "Stands for the nodes that it contains.".to_owned();
    };
    let mut sentence = format!("Called by the {policy} policy, runs {}", calculator.runs);
    if calculator.bounds {
        sentence.push_str(", and is told of timestamps without packets");
    }
    sentence.push('.');
    sentence
}

fn ports(out: &mut String, title: &str, ports: Vec<&PortDescription>) {
    if ports.is_empty() {
        return;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(out, "\n  {title}");
    let width = ports
        .iter()
        .map(|port| port.tag.len())
        .max()
        .unwrap_or(0)
        .max(1);
    for port in ports {
        let tag = if port.tag.is_empty() { "-" } else { &port.tag };
        let optional = if port.optional { ", optional" } else { "" };
        let repeated = if port.repeated { ", any number" } else { "" };
        let _ = writeln!(out, "    {tag:width$}  {}{optional}{repeated}", port.ty);
    }
}

fn options(out: &mut String, calculator: &Description) {
    let schema = calculator.options.as_value();
    if properties(schema).next().is_none() {
        return;
    }
    let _ = writeln!(out, "\n  Options ({})", calculator.option_names.join(", "));
    option_list(out, 4, schema);
}

/// The options in a schema, and those in the JSON texts of options.
fn option_list(out: &mut String, indent: usize, schema: &Value) {
    let required = schema.get("required").and_then(Value::as_array);
    for (name, option) in properties(schema) {
        let mut rest = option
            .get("default")
            .filter(|default| !default.is_null())
            .map_or(String::new(), |default| format!(", default {default}"));
        if required.is_some_and(|required| required.contains(&json!(name))) {
            rest.push_str(", required");
        }
        let _ = writeln!(
            out,
            "{:indent$}{name}: {}{rest}",
            "",
            type_of(option, schema)
        );
        let description = option.get("description").and_then(Value::as_str);
        paragraph(out, indent + 2, description.unwrap_or_default());
        if let Some(content) = option.get("contentSchema") {
            option_list(out, indent + 2, content);
        }
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten()
}

/// The node as a graph file has it: what is optional stands in comments.
fn example(calculator: &Description) -> String {
    let mut out = format!("node {{\n  calculator: \"{}\"\n", calculator.name);
    for port in &calculator.ports {
        let name = match port.tag.as_str() {
            "" if port.kind.starts_with("input") => "in".to_owned(),
            "" => "out".to_owned(),
            tag => format!("{tag}:{}", tag.to_lowercase()),
        };
        let comment = if port.optional { "# " } else { "" };
        let _ = writeln!(out, "  {comment}{}: \"{name}\"", port.kind);
    }
    let properties = calculator
        .options
        .as_value()
        .get("properties")
        .and_then(Value::as_object);
    if properties.is_some_and(|options| !options.is_empty())
        && let Some(name) = calculator.option_names.first()
    {
        let _ = writeln!(
            out,
            "  node_options {{ [type.googleapis.com/{name}] {{ .. }} }}"
        );
    }
    out.push_str("}\n");
    out
}

/// The type of an option in words, from its JSON schema.
fn type_of(option: &Value, schema: &Value) -> String {
    if let Some(target) = option.get("$ref").and_then(Value::as_str) {
        let found = target
            .strip_prefix('#')
            .and_then(|pointer| schema.pointer(pointer));
        return found.map_or_else(|| target.to_owned(), |found| type_of(found, schema));
    }
    if let Some(values) = option.get("enum").and_then(Value::as_array) {
        return values
            .iter()
            .map(Value::to_string)
            .collect::<Vec<_>>()
            .join(" | ");
    }
    if let Some(value) = option.get("const") {
        return value.to_string();
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(types) = option.get(key).and_then(Value::as_array) {
            let types = types
                .iter()
                .filter(|of| of.get("type") != Some(&json!("null")));
            return types
                .map(|of| type_of(of, schema))
                .collect::<Vec<_>>()
                .join(" | ");
        }
    }
    match option.get("type") {
        Some(Value::String(name)) if name == "array" => {
            format!(
                "list of {}",
                option
                    .get("items")
                    .map_or("any".to_owned(), |items| type_of(items, schema))
            )
        }
        Some(Value::String(name)) if name == "object" && option.get("properties").is_some() => {
            "message".to_owned()
        }
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => {
            let names = names
                .iter()
                .filter_map(Value::as_str)
                .filter(|name| *name != "null");
            names.collect::<Vec<_>>().join(" | ")
        }
        _ => "any".to_owned(),
    }
}

/// The lines of a text, indented.
fn paragraph(out: &mut String, indent: usize, text: &str) {
    for line in text.trim().lines() {
        let _ = match line.trim_end() {
            "" => writeln!(out),
            line => writeln!(out, "{:indent$}{line}", ""),
        };
    }
}
