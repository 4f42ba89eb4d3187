//! Expanded graphs as text.

use std::fmt::Write as _;

use graphmill_engine::plan::{Explain, ExplainNode};

pub(super) fn text(explain: &Explain) -> String {
    let mut out = String::new();
    for (what, names) in [
        ("takes in ", &explain.inputs),
        ("gives out", &explain.outputs),
        ("takes the side packets", &explain.side_inputs),
        ("gives the side packets", &explain.side_outputs),
    ] {
        if !names.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{what} {}", names.join(", "));
        }
    }
    for node in &explain.nodes {
        out.push('\n');
        describe(&mut out, node);
    }
    out
}

fn describe(out: &mut String, node: &ExplainNode) {
    let within = match node.within.as_slice() {
        [] => String::new(),
        within => format!(", in {}", within.join(" > ")),
    };
    let place = node
        .place
        .as_ref()
        .map_or(String::new(), |place| format!(", at {place}"));
    let calculator = if node.name == node.calculator {
        String::new()
    } else {
        format!(" ({})", node.calculator)
    };
    let _ = writeln!(out, "{}{calculator}{within}{place}", node.name);
    let _ = writeln!(out, "  called: {}; runs: {}", node.policy, node.runs);
    for (kind, ports) in [
        ("in", &node.inputs),
        ("out", &node.outputs),
        ("side in", &node.side_inputs),
        ("side out", &node.side_outputs),
    ] {
        for port in ports {
            let back = if port.back_edge { ", back edge" } else { "" };
            // A port without a tag is written as its index, as in the file.
            let tag = match port.port.as_str() {
                untagged if untagged.is_empty() || untagged.starts_with(':') => String::new(),
                tag => format!("{tag}:"),
            };
            let _ = writeln!(out, "  {kind:8} {tag}{}: {}{back}", port.name, port.ty);
        }
    }
}
