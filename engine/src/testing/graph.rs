//! Compilation of graph texts in tests.

use std::sync::Arc;

use graphmill_grammar::{Diagnostic, GraphConfig, PortSpec, SourceMap, diag, parse_graph, render};

use crate::{plan::Plan, registry::environment::Environment};

/// Renders the diagnostics of a graph text. Empty if there are none.
pub fn check(text: &str, environment: &Environment) -> String {
    let mut sources = SourceMap::new();
    let (_, diagnostics) = compile(text, &mut sources, environment);
    render::human(&sources, &diagnostics, render::Color::Plain)
}

pub(super) fn compile(
    text: &str,
    sources: &mut SourceMap,
    environment: &Environment,
) -> (Option<Arc<Plan>>, Vec<Diagnostic>) {
    let parsed = parse_graph(sources, "graph.pbtxt", text);
    let mut diagnostics = parsed.diagnostics;
    let Some(mut graph) = parsed.graph else {
        return (None, diagnostics);
    };
    if graph.input_stream.is_empty() && graph.output_stream.is_empty() {
        open_border(&mut graph);
    }
    let (plan, more) = Plan::compile(&graph, sources, environment);
    diagnostics.extend(more);
    let plan = plan.filter(|_| !diag::has_errors(&diagnostics));
    (plan, diagnostics)
}

/// Makes streams without a producer inputs of the graph, and streams without a consumer outputs.
fn open_border(graph: &mut GraphConfig) {
    let nodes = || graph.node.iter();
    let read: Vec<&PortSpec> = nodes().flat_map(|node| &node.input_stream).collect();
    let written: Vec<&PortSpec> = nodes().flat_map(|node| &node.output_stream).collect();
    let rest = |of: &[&PortSpec], without: &[&PortSpec]| {
        let mut names: Vec<&str> = Vec::new();
        for port in of {
            let name = port.name.as_str();
            if !names.contains(&name) && !without.iter().any(|other| other.name.as_str() == name) {
                names.push(name);
            }
        }
        let ports = names.into_iter().map(PortSpec::parse);
        ports.filter_map(Result::ok).collect::<Vec<PortSpec>>()
    };
    (graph.input_stream, graph.output_stream) = (rest(&read, &written), rest(&written, &read));
}
