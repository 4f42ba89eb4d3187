//! `graphmill calculators`: what graphs can use, from the registry of this binary.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use graphmill_engine::{
    Registry, Subgraph,
    registry::{Description, PortDescription},
};
use graphmill_grammar::suggest;
use serde_json::{Value, json};

use super::report;

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Arguments {
    /// Describe only this calculator or subgraph.
    name: Option<String>,
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    Text,
    /// For programs: everything, with the JSON schema of the options.
    Json,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let registry = Registry::global();
    let wanted = |name: &str| {
        arguments
            .name
            .as_deref()
            .is_none_or(|wanted| wanted == name)
    };
    let calculators: Vec<Description> = registry
        .describe()
        .into_iter()
        .filter(|found| wanted(found.name))
        .collect();
    let subgraphs: Vec<&Subgraph> = registry
        .subgraphs()
        .filter(|found| wanted(&found.name))
        .collect();
    if let (Some(name), true, true) = (
        &arguments.name,
        calculators.is_empty(),
        subgraphs.is_empty(),
    ) {
        report::error(&unknown(&registry, name));
        return ExitCode::FAILURE;
    }
    let text = match arguments.format {
        Format::Json => as_json(&calculators, &subgraphs),
        Format::Text => as_text(&calculators, &subgraphs),
    };
    // Fails when the reader has read enough, as `head` does.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn unknown(registry: &Registry, name: &str) -> String {
    let names = registry
        .calculators()
        .map(|found| found.name)
        .chain(registry.subgraphs().map(|found| &*found.name));
    match suggest::nearest(name, names) {
        Some(near) => format!("no calculator is called `{name}`; did you mean `{near}`?"),
        None => format!(
            "no calculator is called `{name}`; is the crate that registers it named in this binary (`use crate_name as _;`)?"
        ),
    }
}

fn as_json(calculators: &[Description], subgraphs: &[&Subgraph]) -> String {
    let subgraphs: Vec<Value> = subgraphs
        .iter()
        .map(|subgraph| json!({ "name": subgraph.name, "doc": subgraph.doc, "graph": subgraph.text, "primary": subgraph.primary }))
        .collect();
    format!(
        "{:#}\n",
        json!({ "calculators": calculators, "subgraphs": subgraphs })
    )
}

fn as_text(calculators: &[Description], subgraphs: &[&Subgraph]) -> String {
    let mut out = String::new();
    for calculator in calculators {
        describe(&mut out, calculator);
        out.push('\n');
    }
    for subgraph in subgraphs {
        let _ = writeln!(out, "{} (subgraph)", subgraph.name);
        paragraph(&mut out, 2, &subgraph.doc);
        out.push_str("\n  Expands to\n");
        paragraph(&mut out, 4, &subgraph.text);
        out.push('\n');
    }
    out
}

fn describe(out: &mut String, calculator: &Description) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}", calculator.name);
    paragraph(out, 2, calculator.doc);
    for (kind, title) in [
        ("input_stream", "Input streams"),
        ("output_stream", "Output streams"),
        ("input_side_packet", "Input side packets"),
        ("output_side_packet", "Output side packets"),
    ] {
        let ports: Vec<&PortDescription> = calculator
            .ports
            .iter()
            .filter(|port| port.kind == kind)
            .collect();
        if ports.is_empty() {
            continue;
        }
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
    let schema = calculator.options.as_value();
    let Some(options) = schema
        .get("properties")
        .and_then(Value::as_object)
        .filter(|options| !options.is_empty())
    else {
        return;
    };
    let _ = writeln!(out, "\n  Options ({})", calculator.option_names.join(", "));
    for (name, option) in options {
        let default = option
            .get("default")
            .filter(|default| !default.is_null())
            .map_or(String::new(), |default| format!(", default {default}"));
        let _ = writeln!(out, "    {name}: {}{default}", type_of(option, schema));
        paragraph(
            out,
            6,
            option
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        );
    }
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
