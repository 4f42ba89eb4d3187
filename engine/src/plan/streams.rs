//! Streams: every input finds its producer.

use graphmill_grammar::{Diagnostic, Span, diag::has_errors, suggest};

use crate::{
    codes::{cycles, streams},
    contract::Group,
};

use super::{
    Producer,
    draft::{Draft, DraftStream},
};

pub(super) fn connect(draft: &mut Draft<'_>) {
    produce(draft);
    consume(draft);
    mark_back_edges(draft);
    outputs(draft);
}

/// Makes a stream for each graph input and each output of a node.
fn produce(draft: &mut Draft<'_>) {
    for (index, port) in draft.graph.input_stream.iter().enumerate() {
        add(
            draft,
            &port.name.value,
            Producer::Graph(index as u16),
            port.span,
        );
    }
    for node in 0..draft.nodes.len() {
        let count = draft.nodes[node].contract.tag_map(Group::Outputs).len();
        for output in 0..count {
            let port = draft.nodes[node].port(Group::Outputs, output).clone();
            let stream = add(draft, &port.name, Producer::Node(node as u16), port.span);
            draft.nodes[node].outputs.push(stream);
        }
    }
}

fn add(draft: &mut Draft<'_>, name: &str, producer: Producer, span: Span) -> u32 {
    let id = draft.streams.len() as u32;
    if let Some(&first) = draft.stream_ids.get(name) {
        let first = &draft.streams[first as usize];
        let by = producer_name(draft, first.producer);
        let diagnostic = Diagnostic::error(
            &streams::TWO_PRODUCERS,
            span,
            format!("stream `{name}` is produced twice"),
        )
        .label("produced again here")
        .also(first.span, format!("first produced here, {by}"));
        draft.report(diagnostic);
    } else {
        draft.stream_ids.insert(name.to_owned(), id);
    }
    draft.streams.push(DraftStream {
        name: name.to_owned(),
        producer,
        span,
        consumers: Vec::new(),
        types: Vec::new(),
        check: false,
    });
    id
}

pub(super) fn producer_name(draft: &Draft<'_>, producer: Producer) -> String {
    match producer {
        Producer::Graph(_) => "as an input of the graph".to_owned(),
        Producer::Node(node) => format!("by `{}`", draft.nodes[usize::from(node)].calculator()),
    }
}

fn consume(draft: &mut Draft<'_>) {
    for node in 0..draft.nodes.len() {
        let count = draft.nodes[node].contract.tag_map(Group::Inputs).len();
        draft.nodes[node].back_edges = vec![false; count];
        for input in 0..count {
            let port = draft.nodes[node].port(Group::Inputs, input).clone();
            let stream = draft.stream_ids.get(&port.name).copied();
            draft.nodes[node].inputs.push(stream);
            if let Some(stream) = stream {
                draft.streams[stream as usize]
                    .consumers
                    .push((node as u16, input as u16));
            } else if !draft.incomplete {
                let diagnostic = no_producer(draft, &port.name, port.span);
                draft.report(diagnostic);
            }
        }
    }
}

fn no_producer(draft: &Draft<'_>, name: &str, span: Span) -> Diagnostic {
    let diagnostic = Diagnostic::error(
        &streams::NO_PRODUCER,
        span,
        format!("stream `{name}` has no producer"),
    )
    .label("read here, but nothing writes it");
    let names = draft.streams.iter().map(|stream| stream.name.as_str());
    match suggest::nearest(name, names) {
        Some(near) => {
            let near_span = draft.streams[draft.stream_ids[near] as usize].span;
            diagnostic.also(near_span, format!("did you mean `{near}`?"))
        }
        None => diagnostic.hint(format!(
            "let a node write it, or add `input_stream: \"{name}\"` to the graph if it comes from outside"
        )),
    }
}

fn mark_back_edges(draft: &mut Draft<'_>) {
    let mut found = Vec::new();
    for node in &mut draft.nodes {
        let mut given: Vec<(usize, Span)> = Vec::new();
        for info in &node.config.input_stream_info {
            let (wanted, span) = match &info.tag_index {
                Some(tag_index) => (tag_index.to_string(), tag_index.span),
                None => (":0".to_owned(), info.span),
            };
            let Some(input) = node.contract.tag_map(Group::Inputs).position(&wanted) else {
                let message = format!("`{wanted}` is no input of `{}`", node.calculator());
                let labels: Vec<String> = (0..node.inputs.len())
                    .map(|input| format!("`{}`", node.port_label(Group::Inputs, input)))
                    .collect();
                let diagnostic = Diagnostic::error(&cycles::BACK_EDGE_NOT_INPUT, span, message)
                    .label("no such input");
                found.push(if labels.is_empty() {
                    diagnostic.hint("the node has no inputs")
                } else {
                    diagnostic.hint(format!("its inputs are {}", labels.join(", ")))
                });
                continue;
            };
            if let Some((_, first)) = given.iter().find(|(other, _)| *other == input) {
                let message = format!("input `{wanted}` has more than one `input_stream_info`");
                found.push(
                    Diagnostic::error(&cycles::BACK_EDGE_TWICE, span, message)
                        .also(*first, "first given here"),
                );
                continue;
            }
            given.push((input, span));
            node.back_edges[input] = info.back_edge.as_ref().is_some_and(|back| back.value);
        }
    }
    draft.diagnostics.extend(found);
}

/// Warns of what is written and never read, and of graph outputs that nobody writes.
fn outputs(draft: &mut Draft<'_>) {
    // After a mistake, a stream may seem to be unused only because of it.
    if draft.incomplete || has_errors(&draft.diagnostics) {
        return;
    }
    let mut found = Vec::new();
    for port in &draft.graph.output_stream {
        if !draft.stream_ids.contains_key(port.name.as_str()) {
            let names = draft.streams.iter().map(|stream| stream.name.as_str());
            let message = format!("graph output `{}` has no producer", port.name.as_str());
            let diagnostic = Diagnostic::warning(&streams::NO_GRAPH_OUTPUT, port.span, message)
                .label("nothing will come out here");
            found.push(match suggest::nearest(&port.name, names) {
                Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
                None => diagnostic,
            });
        }
    }
    for stream in &draft.streams {
        let given_out = draft
            .graph
            .output_stream
            .iter()
            .any(|port| port.name.value == stream.name);
        if !stream.consumers.is_empty() || given_out {
            continue;
        }
        let (code, message) = match stream.producer {
            Producer::Graph(_) => (
                &streams::UNUSED_INPUT,
                format!("no node reads graph input `{}`", stream.name),
            ),
            // What a subgraph leaves unread is not for its user to change.
            Producer::Node(node) if !draft.nodes[usize::from(node)].within.is_empty() => continue,
            Producer::Node(_) => (
                &streams::UNUSED_STREAM,
                format!("nothing reads stream `{}`", stream.name),
            ),
        };
        found.push(Diagnostic::warning(code, stream.span, message));
    }
    draft.diagnostics.extend(found);
}
