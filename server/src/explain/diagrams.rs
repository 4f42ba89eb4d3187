//! Diagrams in the languages of Graphviz and Mermaid.

use std::{collections::BTreeMap, fmt::Write as _};

use petgraph::{
    dot::{Config, Dot},
    graph::{EdgeReference, NodeIndex},
};
use serde_json::json;

use super::drawing::{Arrow, ArrowKind, DiagramBox, Drawing};

/// Writes the drawing in the language of Graphviz.
pub(super) fn dot(drawing: &Drawing) -> String {
    let block = |_, (_, block): (NodeIndex, &DiagramBox)| {
        let shape = if block.is_border { " shape=oval" } else { "" };
        format!("label={}{shape}", json!(block.text().join("\n")))
    };
    let arrow = |_, arrow: EdgeReference<'_, Arrow>| {
        let style = match arrow.weight().kind {
            ArrowKind::Stream => "",
            ArrowKind::BackEdge => " style=dashed constraint=false",
            ArrowKind::SidePacket => " style=dotted",
        };
        format!("label={}{style}", json!(arrow.weight().label))
    };
    let config = [
        Config::GraphContentOnly,
        Config::NodeNoLabel,
        Config::EdgeNoLabel,
    ];
    let content = Dot::with_attr_getters(drawing, &config, &arrow, &block);
    let mut out = format!(
        "digraph {{\n    rankdir=TB\n    node [shape=box fontname=\"sans-serif\" fontsize=11]\n    \
         edge [fontname=\"sans-serif\" fontsize=9]\n{content:?}"
    );
    for (cluster, (name, blocks)) in subgraphs(drawing).into_iter().enumerate() {
        let blocks: Vec<String> = blocks.iter().map(ToString::to_string).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "    subgraph cluster_{cluster} {{ label={} style=dashed {} }}",
            json!(name),
            blocks.join(" ")
        );
    }
    out.push_str("}\n");
    out
}

/// Writes the drawing in the language of Mermaid.
pub(super) fn mermaid(drawing: &Drawing) -> String {
    let mut out = String::from("flowchart TB\n");
    let blocks = drawing.node_weights().enumerate();
    for (at, block) in blocks.filter(|(_, block)| block.within.is_empty()) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {}", mermaid_box(at, block));
    }
    for (cluster, (name, blocks)) in subgraphs(drawing).into_iter().enumerate() {
        let _ = writeln!(out, "  subgraph s{cluster} [\"{}\"]", entities(&name));
        for at in blocks {
            let _ = writeln!(out, "    {}", mermaid_box(at, &drawing[NodeIndex::new(at)]));
        }
        out.push_str("  end\n");
    }
    for arrow in drawing.raw_edges() {
        let line = match arrow.weight.kind {
            ArrowKind::Stream => "-->",
            ArrowKind::BackEdge => "-.->",
            ArrowKind::SidePacket => "-.-o",
        };
        let label = match arrow.weight.label.as_str() {
            "" => String::new(),
            label => format!("|\"{}\"|", entities(label)),
        };
        let (from, to) = (arrow.source().index(), arrow.target().index());
        let _ = writeln!(out, "  n{from} {line}{label} n{to}");
    }
    out
}

fn mermaid_box(at: usize, block: &DiagramBox) -> String {
    let lines: Vec<String> = block.text().into_iter().map(entities).collect();
    let label = lines.join("<br/>");
    if block.is_border {
        format!("n{at}([\"{label}\"])")
    } else {
        format!("n{at}[\"{label}\"]")
    }
}

fn entities(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Returns the boxes of each subgraph, by its path.
fn subgraphs(drawing: &Drawing) -> BTreeMap<String, Vec<usize>> {
    let mut found: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let blocks = drawing.node_weights().enumerate();
    for (at, block) in blocks.filter(|(_, block)| !block.within.is_empty()) {
        found.entry(block.within.join(" > ")).or_default().push(at);
    }
    found
}
