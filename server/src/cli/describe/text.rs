//! Descriptions of calculators and subgraphs as text.

use std::fmt::Write as _;

use graphmill_engine::{
    Subgraph,
    registry::{Description, PortDescription},
};
use serde_json::{Value, json};

use super::example::example;

pub(super) fn subgraph_text(subgraph: &Subgraph) -> String {
    let mut out = format!("{} (subgraph)\n", subgraph.name);
    paragraph(&mut out, 2, &subgraph.doc);
    if let Some(primary) = &subgraph.primary {
        let text = format!(
            "Its node `{primary}` gets the options, the input policy and the executor of the node."
        );
        paragraph(&mut out, 2, &text);
    }
    out.push_str("\n  Expands to\n");
    paragraph(&mut out, 4, &subgraph.text);
    out
}

pub(super) fn calculator_text(calculator: &Description) -> String {
    let mut out = format!("{}\n", calculator.name);
    paragraph(&mut out, 2, calculator.doc);
    paragraph(&mut out, 2, &behavior(calculator));
    for (kind, title) in [
        ("input_stream", "Input streams"),
        ("output_stream", "Output streams"),
        ("input_side_packet", "Input side packets"),
        ("output_side_packet", "Output side packets"),
    ] {
        let of_kind = calculator.ports.iter().filter(|port| port.kind == kind);
        ports(&mut out, title, &of_kind.collect::<Vec<_>>());
    }
    options(&mut out, calculator);
    out.push_str("\n  In a graph\n");
    paragraph(&mut out, 4, &example(calculator));
    out
}

/// Describes in a sentence when and where the calculator runs.
fn behavior(calculator: &Description) -> String {
    let Some(policy) = &calculator.policy else {
        return "Stands for the nodes that it contains.".to_owned();
    };
    let mut sentence = format!("Called by the {policy} policy, runs {}", calculator.runs);
    if calculator.bounds {
        sentence.push_str(", also for timestamps without packets");
    }
    sentence.push('.');
    sentence
}

fn ports(out: &mut String, title: &str, ports: &[&PortDescription]) {
    if ports.is_empty() {
        return;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(out, "\n  {title}");
    let widths = ports.iter().map(|port| port.tag.len());
    let width = widths.fold(1, usize::max);
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

/// Lists the options of a schema, and the fields of options that hold JSON text.
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
            "{:indent$}{name}: {}{}{rest}",
            "",
            type_of(option, schema),
            range_of(option)
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

/// Returns the type of an option in words.
fn type_of(option: &Value, schema: &Value) -> String {
    if let Some(target) = option.get("$ref").and_then(Value::as_str) {
        let found = target
            .strip_prefix('#')
            .and_then(|pointer| schema.pointer(pointer));
        return found.map_or_else(|| target.to_owned(), |found| type_of(found, schema));
    }
    if let Some(values) = option.get("enum").and_then(Value::as_array) {
        return either(values.iter().map(Value::to_string));
    }
    if let Some(value) = option.get("const") {
        return value.to_string();
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(types) = option.get(key).and_then(Value::as_array) {
            let types = types
                .iter()
                .filter(|of| of.get("type") != Some(&json!("null")));
            return either(types.map(|of| type_of(of, schema)));
        }
    }
    match option.get("type") {
        Some(Value::String(name)) if name == "array" => {
            let items = option.get("items").map(|items| type_of(items, schema));
            format!("list of {}", items.as_deref().unwrap_or("any"))
        }
        Some(Value::String(name)) if name == "object" && option.get("properties").is_some() => {
            "message".to_owned()
        }
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str);
            either(names.filter(|name| *name != "null").map(str::to_owned))
        }
        _ => "any".to_owned(),
    }
}

fn either(types: impl Iterator<Item = String>) -> String {
    types.collect::<Vec<_>>().join(" | ")
}

/// Returns the range of a number, or of the numbers in a list, unless the type implies it.
fn range_of(option: &Value) -> String {
    let option = option.get("items").unwrap_or(option);
    match (option.get("minimum"), option.get("maximum")) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (None, Some(most)) => format!(", at most {most}"),
        (Some(least), None) if least.as_f64() > Some(0.0) => format!(", at least {least}"),
        (_, None) => String::new(),
    }
}

/// Appends the lines of a text, each indented by `indent` spaces.
fn paragraph(out: &mut String, indent: usize, text: &str) {
    for line in text.trim().lines() {
        let _ = match line.trim_end() {
            "" => writeln!(out),
            line => writeln!(out, "{:indent$}{line}", ""),
        };
    }
}
