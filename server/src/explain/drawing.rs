//! Expanded graphs as boxes and arrows, independent of the output format.

use std::collections::HashMap;

use graphmill_engine::plan::{Explain, ExplainPort};
use petgraph::graph::{DiGraph, NodeIndex};

/// Boxes and arrows: the graph's inputs, then its nodes in the order in which packets pass them,
/// then its outputs.
pub(super) type Drawing = DiGraph<DiagramBox, Arrow>;

/// A box for a node, or for an input or output of the graph.
#[derive(Debug)]
pub(super) struct DiagramBox {
    /// True for an input or output of the graph.
    pub(super) is_border: bool,
    pub(super) name: String,
    /// Lines below the name, such as the calculator.
    pub(super) lines: Vec<String>,
    /// Names of the enclosing subgraphs, outermost first.
    pub(super) within: Vec<String>,
}

/// An arrow from the producer to a consumer of a stream or side packet.
#[derive(Debug)]
pub(super) struct Arrow {
    /// Name of the stream or side packet, and its type.
    pub(super) label: String,
    pub(super) kind: ArrowKind,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum ArrowKind {
    Stream,
    BackEdge,
    SidePacket,
}

impl DiagramBox {
    /// Returns the name, and the lines below it.
    pub(super) fn text(&self) -> Vec<&str> {
        let lines = std::iter::once(&self.name).chain(&self.lines);
        lines.map(String::as_str).collect()
    }
}

/// Converts an expanded graph to boxes and arrows.
pub(super) fn draw(explain: &Explain) -> Drawing {
    let mut drawing = Drawing::new();
    let mut streams = HashMap::new();
    let mut sides = HashMap::new();
    for (names, producers, word) in [
        (&explain.inputs, &mut streams, "input stream"),
        (&explain.side_inputs, &mut sides, "input side packet"),
    ] {
        for name in names {
            producers.insert(name.as_str(), drawing.add_node(border(name, word)));
        }
    }
    let mut nodes = Vec::new();
    for node in &explain.nodes {
        let lines = [
            (node.calculator != node.name).then(|| node.calculator.clone()),
            (node.policy != "Default").then(|| node.policy.clone()),
            (node.runs != "inline").then(|| node.runs.clone()),
        ];
        let at = drawing.add_node(DiagramBox {
            is_border: false,
            name: node.name.clone(),
            lines: lines.into_iter().flatten().collect(),
            within: node.within.clone(),
        });
        streams.extend(node.outputs.iter().map(|port| (port.name.as_str(), at)));
        let outputs = node.side_outputs.iter();
        sides.extend(outputs.map(|port| (port.name.as_str(), at)));
        nodes.push(at);
    }
    for (node, &at) in explain.nodes.iter().zip(&nodes) {
        for port in &node.inputs {
            let kind = if port.back_edge {
                ArrowKind::BackEdge
            } else {
                ArrowKind::Stream
            };
            join(&mut drawing, &streams, port, at, kind);
        }
        for port in &node.side_inputs {
            join(&mut drawing, &sides, port, at, ArrowKind::SidePacket);
        }
    }
    for (names, producers, kind) in [
        (&explain.outputs, &streams, ArrowKind::Stream),
        (&explain.side_outputs, &sides, ArrowKind::SidePacket),
    ] {
        let word = match kind {
            ArrowKind::SidePacket => "output side packet",
            ArrowKind::Stream | ArrowKind::BackEdge => "output stream",
        };
        for name in names {
            let to = drawing.add_node(border(name, word));
            if let Some(&from) = producers.get(name.as_str()) {
                let label = String::new();
                drawing.add_edge(from, to, Arrow { label, kind });
            }
        }
    }
    drawing
}

/// Creates the box of an input or output of the graph.
fn border(name: &str, word: &str) -> DiagramBox {
    DiagramBox {
        is_border: true,
        name: name.to_owned(),
        lines: vec![word.to_owned()],
        within: Vec::new(),
    }
}

/// Adds an arrow from the producer of a stream or side packet. A side packet that names a resource
/// has no producer.
fn join(
    drawing: &mut Drawing,
    producers: &HashMap<&str, NodeIndex>,
    port: &ExplainPort,
    to: NodeIndex,
    kind: ArrowKind,
) {
    if let Some(&from) = producers.get(port.name.as_str()) {
        let label = match port.ty.as_str() {
            "any" => port.name.clone(),
            of => format!("{}: {of}", port.name),
        };
        drawing.add_edge(from, to, Arrow { label, kind });
    }
}
