//! A calculator as a node of a graph file, ready to be copied.

use std::{fmt::Write as _, path::Path};

use graphmill_engine::{
    Environment, Registry,
    registry::{Description, PortDescription},
};
use graphmill_grammar::diag::Severity;
use serde_json::Value;

use crate::{catalog, config::subgraphs::NamedSubgraphs, servable::compile_text};

/// Formats a calculator as a node of a graph file. Optional parts are commented out, and the
/// comments at its head list the choices that remain.
pub(super) fn example(calculator: &Description) -> String {
    let names = names(&calculator.ports);
    let ports: Vec<_> = calculator.ports.iter().zip(&names).collect();
    let mut node = format!("node {{\n  calculator: \"{}\"\n", calculator.name);
    // Graph inputs and side packets, so that the node can be checked by itself.
    let mut outside = String::new();
    for (port, name) in &ports {
        // Ports without a tag are distinguished by their order.
        let written = match port.tag.as_str() {
            tag if tag.is_empty() || tag.starts_with(':') => (*name).clone(),
            tag => format!("{tag}:{name}"),
        };
        let comment = if port.optional { "# " } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(node, "  {comment}{}: \"{written}\"", port.kind);
        if port.kind.starts_with("input") && !port.optional {
            let _ = writeln!(outside, "{}: \"{name}\"", port.kind);
        }
    }
    node.push_str(&options(calculator));
    node.push_str("}\n");
    let mut out = String::new();
    for choice in choices(&(outside + &node)) {
        let _ = writeln!(out, "# to fill in: {choice}");
    }
    out + &node
}

/// Returns a name for each port, made from its tag. An output whose name is that of an input gets a
/// number.
fn names(ports: &[PortDescription]) -> Vec<String> {
    let mut names: Vec<(bool, String)> = Vec::new();
    for port in ports {
        let is_side = port.kind.ends_with("side_packet");
        let end = if port.kind.starts_with("input") {
            "in"
        } else {
            "out"
        };
        let mut name = port.tag.to_lowercase().replace(':', "_");
        if name.is_empty() || name.starts_with('_') {
            name.insert_str(0, end);
        }
        if names.contains(&(is_side, name.clone())) {
            name = format!("{name}_{end}");
        }
        names.push((is_side, name));
    }
    names.into_iter().map(|(_, name)| name).collect()
}

/// Placeholder for options, if there are any.
fn options(calculator: &Description) -> String {
    let properties = calculator.options.as_value().get("properties");
    let has_some = properties
        .and_then(Value::as_object)
        .is_some_and(|options| !options.is_empty());
    match calculator.option_names.first() {
        Some(name) if has_some => {
            let is_own = catalog::shipped_group(calculator).is_some();
            let package = if is_own && !name.contains('.') {
                "graphmill."
            } else {
                ""
            };
            format!("  # node_options {{ [type.googleapis.com/{package}{name}] {{ .. }} }}\n")
        }
        _ => String::new(),
    }
}

/// Lists the choices left to the author: the errors of the graph as it is.
fn choices(graph: &str) -> Vec<String> {
    let environment = Environment::new(Registry::global()).without_loading();
    let (file, base) = (Path::new("graph.pbtxt"), Path::new(""));
    let compiled = compile_text(file, graph, base, &environment, &NamedSubgraphs::default());
    let errors = compiled.diagnostics.into_iter();
    let errors = errors.filter(|found| found.severity == Severity::Error);
    errors.map(|found| found.message).collect()
}
