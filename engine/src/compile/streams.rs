//! Streams: connects each input to its producer.

use graphmill_grammar::{Diagnostic, Span};

use crate::{
    codes::{cycles, streams},
    contract::Group,
    plan::Producer,
    tags::TagEntry,
};

use super::draft::{Draft, DraftStream, ports};

pub(super) fn connect(draft: &mut Draft<'_>) {
    produce(draft);
    consume(draft);
    mark_back_edges(draft);
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
        let message = format!("stream `{name}` is produced twice");
        let diagnostic = Diagnostic::error(&streams::TWO_PRODUCERS, span, message)
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
            } else if !draft.streams_in_doubt {
                let diagnostic = no_producer(draft, node, &port);
                draft.report(diagnostic);
            }
        }
    }
}

fn no_producer(draft: &Draft<'_>, node: usize, port: &TagEntry) -> Diagnostic {
    let name = &port.name;
    let message = format!("stream `{name}` has no producer");
    let diagnostic = Diagnostic::error(&streams::NO_PRODUCER, port.span, message)
        .label("read here, but nothing writes it");
    let names = draft.streams.iter().map(|stream| stream.name.as_str());
    if let Some(near) = draft.nearest(name, names) {
        let near_span = draft.streams[draft.stream_ids[near] as usize].span;
        let advice = format!("did you mean `{near}`?");
        return match port.name_span().filter(|_| near_span != port.span) {
            Some(span) => diagnostic
                .also(near_span, "written here")
                .fix(advice, span, near),
            None => diagnostic.also(near_span, advice),
        };
    }
    let field = format!("input_stream: \"{name}\"");
    let advice =
        format!("let a node write it, or add `{field}` to the graph if it comes from outside");
    let can_edit = draft.nodes[node].is_top_level() && !draft.graph.span.is_none();
    let edit = can_edit.then(|| (draft.graph.span.at_start(), format!("{field}\n")));
    diagnostic.advise(advice, edit)
}

fn mark_back_edges(draft: &mut Draft<'_>) {
    let mut found = Vec::new();
    for node in draft.nodes.iter_mut().filter(|node| !node.is_wrong) {
        let mut given: Vec<Option<Span>> = vec![None; node.back_edges.len()];
        for info in &node.config.input_stream_info {
            let (wanted, span) = match &info.tag_index {
                Some(tag_index) => (tag_index.to_string(), tag_index.span),
                None => (":0".to_owned(), info.span),
            };
            let Some(input) = node.contract.tag_map(Group::Inputs).position(&wanted) else {
                if !node.config.refused.may_be(Group::Inputs.field()) {
                    let code = &cycles::BACK_EDGE_NOT_INPUT;
                    found.push(ports::no_such_input(node, code, &wanted, span));
                }
                continue;
            };
            if let Some(first) = given[input] {
                let message = format!("input `{wanted}` has more than one `input_stream_info`");
                let diagnostic = Diagnostic::error(&cycles::BACK_EDGE_TWICE, span, message)
                    .also(first, "first given here");
                found.push(if node.is_top_level() {
                    let all = info.head.to(info.span);
                    diagnostic.fix("join the two, or remove this one", all, "")
                } else {
                    diagnostic
                });
                continue;
            }
            given[input] = Some(span);
            node.back_edges[input] = info.back_edge.is_some_and(|back| back.value);
        }
    }
    draft.diagnostics.extend(found);
}
