//! Drawings in the languages of Graphviz and Mermaid.

use std::{collections::BTreeMap, fmt::Write as _};

use super::drawing::{ArrowKind, Block, BlockKind, Drawing};

/// The drawing in the language of Graphviz.
pub(super) fn dot(drawing: &Drawing) -> String {
    let mut out = String::from(
        "digraph graph_ {\n  rankdir=TB\n  node [shape=box fontname=\"sans-serif\" fontsize=11]\n  edge [fontname=\"sans-serif\" fontsize=9]\n",
    );
    // Writing to a string cannot fail.
    for (at, block) in drawing
        .boxes
        .iter()
        .enumerate()
        .filter(|(_, block)| block.within.is_empty())
    {
        let _ = writeln!(out, "  {}", dot_box(at, block));
    }
    for (cluster, (name, blocks)) in subgraphs(drawing).into_iter().enumerate() {
        let _ = writeln!(
            out,
            "  subgraph cluster_{cluster} {{\n    label={}\n    style=dashed",
            quoted(&name)
        );
        for at in blocks {
            let _ = writeln!(out, "    {}", dot_box(at, &drawing.boxes[at]));
        }
        out.push_str("  }\n");
    }
    for arrow in &drawing.arrows {
        let style = match arrow.kind {
            ArrowKind::Stream => "",
            ArrowKind::BackEdge => " style=dashed constraint=false",
            ArrowKind::SidePacket => " style=dotted",
        };
        let _ = writeln!(
            out,
            "  n{} -> n{} [label={}{style}]",
            arrow.from,
            arrow.to,
            quoted(&arrow.label)
        );
    }
    out.push_str("}\n");
    out
}

fn dot_box(at: usize, block: &Block) -> String {
    let lines = std::iter::once(&block.name).chain(&block.lines);
    let label = lines.map(String::as_str).collect::<Vec<_>>().join("\n");
    let shape = match block.kind {
        BlockKind::Node => "",
        BlockKind::Input | BlockKind::Output => " shape=oval",
    };
    format!("n{at} [label={}{shape}]", quoted(&label))
}

fn quoted(text: &str) -> String {
    format!(
        "\"{}\"",
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    )
}

/// The drawing in the language of Mermaid.
pub(super) fn mermaid(drawing: &Drawing) -> String {
    let mut out = String::from("flowchart TB\n");
    for (at, block) in drawing
        .boxes
        .iter()
        .enumerate()
        .filter(|(_, block)| block.within.is_empty())
    {
        let _ = writeln!(out, "  {}", mermaid_box(at, block));
    }
    for (cluster, (name, blocks)) in subgraphs(drawing).into_iter().enumerate() {
        let _ = writeln!(out, "  subgraph s{cluster} [\"{}\"]", entities(&name));
        for at in blocks {
            let _ = writeln!(out, "    {}", mermaid_box(at, &drawing.boxes[at]));
        }
        out.push_str("  end\n");
    }
    for arrow in &drawing.arrows {
        let line = match arrow.kind {
            ArrowKind::Stream => "-->",
            ArrowKind::BackEdge => "-.->",
            ArrowKind::SidePacket => "-.-o",
        };
        let label = match arrow.label.as_str() {
            "" => String::new(),
            label => format!("|\"{}\"|", entities(label)),
        };
        let _ = writeln!(out, "  n{} {line}{label} n{}", arrow.from, arrow.to);
    }
    out
}

fn mermaid_box(at: usize, block: &Block) -> String {
    let lines = std::iter::once(&block.name).chain(&block.lines);
    let label = lines
        .map(|line| entities(line))
        .collect::<Vec<_>>()
        .join("<br/>");
    match block.kind {
        BlockKind::Node => format!("n{at}[\"{label}\"]"),
        BlockKind::Input | BlockKind::Output => format!("n{at}([\"{label}\"])"),
    }
}

fn entities(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The boxes of each subgraph, by its path.
fn subgraphs(drawing: &Drawing) -> BTreeMap<String, Vec<usize>> {
    let mut found: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, block) in drawing
        .boxes
        .iter()
        .enumerate()
        .filter(|(_, block)| !block.within.is_empty())
    {
        found.entry(block.within.join(" > ")).or_default().push(at);
    }
    found
}
