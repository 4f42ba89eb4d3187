//! Warnings: allowed, but probably not intended.
//!
//! They are reported only if there are no errors: after a mistake, a stream may only seem to be
//! unused.

use std::collections::{HashMap, HashSet};

use graphmill_grammar::{Diagnostic, PortSpec, suggest};

use crate::{
    codes::{calculators, sides, streams},
    contract::Group,
    plan::Producer,
};

use super::draft::Draft;

pub(super) fn check(draft: &mut Draft<'_>) {
    let mut found = Vec::new();
    names(draft, &mut found);
    graph_outputs(draft, &mut found);
    unread_streams(draft, &mut found);
    side_packets(draft, &mut found);
    draft.diagnostics.extend(found);
}

/// Reports nodes with equal names. Messages and metrics tell them apart by a number.
fn names(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let mut seen = HashMap::new();
    for node in &draft.graph.node {
        let Some(name) = node.name.as_ref().filter(|name| !name.is_empty()) else {
            continue;
        };
        if let Some(first) = seen.insert(name.as_str(), name.span) {
            let message = format!("two nodes are called `{}`", name.value);
            found.push(
                Diagnostic::warning(&calculators::DUPLICATE_NAME, name.span, message)
                    .label("given again here; messages add a number to each name")
                    .also(first, "first given here"),
            );
        }
    }
}

/// Suggests the name that a port at the border of the graph is probably meant to have.
fn did_you_mean<'a>(
    diagnostic: Diagnostic,
    port: &PortSpec,
    names: impl Iterator<Item = &'a str>,
) -> Diagnostic {
    let Some(near) = suggest::nearest(&port.name, names) else {
        return diagnostic;
    };
    let is_verbatim = port.name.span.len() == port.name.len();
    diagnostic.did_you_mean(near, is_verbatim.then(|| (port.name.span, near.to_owned())))
}

fn names_of(ports: &[PortSpec]) -> HashSet<&str> {
    ports.iter().map(|port| port.name.as_str()).collect()
}

fn graph_outputs(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    for port in &draft.graph.output_stream {
        if !draft.stream_ids.contains_key(port.name.as_str()) {
            let message = format!("graph output `{}` has no producer", port.name.as_str());
            let diagnostic = Diagnostic::warning(&streams::NO_GRAPH_OUTPUT, port.span, message)
                .label("nothing will come out here");
            let names = draft.streams.iter().map(|stream| stream.name.as_str());
            found.push(did_you_mean(diagnostic, port, names));
        }
    }
    for port in &draft.graph.output_side_packet {
        let id = draft.side_ids.get(port.name.as_str());
        if id.is_none_or(|&id| draft.sides[id as usize].producer.is_none()) {
            let name = port.name.as_str();
            let message = format!("output side packet `{name}` of the graph has no producer");
            let diagnostic = Diagnostic::warning(&sides::NO_GRAPH_SIDE, port.span, message)
                .label("nothing will come out here");
            let produced = draft.sides.iter().filter(|side| side.producer.is_some());
            let names = produced.map(|side| side.name.as_str());
            found.push(did_you_mean(diagnostic, port, names));
        }
    }
}

fn unread_streams(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let given_out = names_of(&draft.graph.output_stream);
    for stream in &draft.streams {
        if !stream.consumers.is_empty() || given_out.contains(stream.name.as_str()) {
            continue;
        }
        let (code, message) = match stream.producer {
            Producer::Graph(_) => (
                &streams::UNUSED_INPUT,
                format!("no node reads graph input `{}`", stream.name),
            ),
            // The user of a subgraph cannot change its unread streams.
            Producer::Node(node) if !draft.nodes[usize::from(node)].is_top_level() => continue,
            Producer::Node(_) => (
                &streams::UNUSED_STREAM,
                format!("nothing reads stream `{}`", stream.name),
            ),
        };
        found.push(Diagnostic::warning(code, stream.span, message));
    }
}

fn side_packets(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let declared = names_of(&draft.graph.input_side_packet);
    let mut read = names_of(&draft.graph.output_side_packet);
    let known = || {
        let produced = draft.sides.iter().filter(|side| side.producer.is_some());
        let produced = produced.map(|side| side.name.as_str());
        produced.chain(declared.iter().copied())
    };
    for node in &draft.nodes {
        for port in node.contract.tag_map(Group::InputSides).entries() {
            let side = &draft.sides[draft.side_ids[&port.name] as usize];
            let is_known = side.producer.is_some()
                || side.resource.is_some()
                || declared.contains(port.name.as_str());
            let first = read.insert(port.name.as_str());
            if is_known || !first || !node.is_top_level() {
                continue;
            }
            // The caller may provide it, but that is unlikely if another one has nearly this name.
            let Some(near) = suggest::slip(&port.name, known()) else {
                continue;
            };
            let message = format!("nothing makes or declares side packet `{}`", port.name);
            let diagnostic = Diagnostic::warning(&sides::UNKNOWN_SIDE, port.span, message)
                .label("must be given when the graph starts");
            let edit = port.name_span().map(|span| (span, near.to_owned()));
            found.push(diagnostic.did_you_mean(near, edit));
        }
    }
    for side in &draft.sides {
        let Some((node, _)) = side.producer else {
            continue;
        };
        if !read.contains(side.name.as_str()) && draft.nodes[usize::from(node)].is_top_level() {
            let message = format!("nothing reads side packet `{}`", side.name);
            found.push(Diagnostic::warning(&sides::UNUSED_SIDE, side.span, message));
        }
    }
    for port in &draft.graph.input_side_packet {
        if !read.contains(port.name.as_str()) {
            let name = port.name.as_str();
            let message = format!("no node reads input side packet `{name}` of the graph");
            found.push(Diagnostic::warning(&sides::UNUSED_SIDE, port.span, message));
        }
    }
}
