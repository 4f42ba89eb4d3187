//! Fields of the text format that no other phase reads. They are refused if ignoring them would
//! change the graph's behavior, and otherwise reported as warnings.
//! `docs/reference/graph-fields.md` lists all fields.

use graphmill_grammar::{
    Diagnostic, GraphConfig, PortSpec, Span,
    codes::fields,
    graph::{OutputStreamHandlerConfig, PacketGeneratorConfig, ProfilerConfig},
};

use crate::{codes::calculators, plan::NodePlace};

use super::draft::{Draft, DraftNode};

pub(super) fn check(draft: &mut Draft<'_>) {
    let mut found = Vec::new();
    legacy(draft.graph, &mut found);
    graph(draft.graph, &mut found);
    for node in draft.nodes.iter().filter(|node| !node.is_wrong) {
        self::node(node, &mut found);
    }
    draft.diagnostics.extend(found);
}

fn refused(span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(&calculators::UNSUPPORTED_FIELD, span, message)
}

fn no_effect(span: Span, field: &str) -> Diagnostic {
    let message = format!("`{field}` has no effect");
    Diagnostic::warning(&calculators::NO_EFFECT, span, message)
}

/// Reports obsolete fields: packet generators, packet factories and status handlers.
fn legacy(graph: &GraphConfig, found: &mut Vec<Diagnostic>) {
    for part in &graph.packet_generator {
        let node = as_node(part);
        let advice =
            format!("a node without streams makes side packets from side packets: `{node}`");
        found.push(refused(part.head, "`packet_generator` is not supported").hint(advice));
    }
    for part in &graph.packet_factory {
        let made = part.output_side_packet.as_ref().map_or("..", |name| name);
        let advice = format!(
            "a node without streams makes side packets: `node {{ calculator: \"..\" output_side_packet: \"{made}\" }}`"
        );
        found.push(refused(part.head, "`packet_factory` is not supported").hint(advice));
    }
    for part in &graph.status_handler {
        let advice =
            "the program that runs the graph receives the status at the end of the session";
        found.push(refused(part.head, "`status_handler` is not supported").hint(advice));
    }
}

/// Writes a packet generator as an equivalent node.
fn as_node(part: &PacketGeneratorConfig) -> String {
    let name = part.packet_generator.as_ref().map_or("..", |name| name);
    let list = |field: &str, ports: &[PortSpec]| -> String {
        let one = |port| format!(" {field}: \"{port}\"");
        ports.iter().map(one).collect()
    };
    format!(
        "node {{ calculator: \"{name}\"{}{} }}",
        list("input_side_packet", &part.input_side_packet),
        list("output_side_packet", &part.output_side_packet)
    )
}

fn graph(graph: &GraphConfig, found: &mut Vec<Diagnostic>) {
    if let Some(handler) = &graph.output_stream_handler {
        let diagnostic = no_effect(handler.head, "output_stream_handler");
        found.push(diagnostic.label("the outputs of every node are in order"));
    }
    if let Some(limit) = &graph.max_queue_size
        && limit.value < -1
    {
        let size = limit.value;
        let message = format!("a `max_queue_size` of {size} is read as -1: no limit");
        found.push(
            Diagnostic::warning(&fields::INVALID_VALUE, limit.span, message)
                .hint("give a number above 0, 0 for the default of 100, or -1 for no limit"),
        );
    }
    if let Some(config) = &graph.profiler_config {
        profiler(config, found);
    }
    if let Some(config) = &graph.runtime_info {
        for (field, span) in config.places() {
            let advice = "`Handle::why` describes the current wait of a session at any time";
            found.push(no_effect(span, field).hint(advice));
        }
    }
}

/// Reports profiler settings without effect. Every session counts and times the calls of its nodes,
/// with or without `enable_profiler`, and writes no trace files.
fn profiler(config: &ProfilerConfig, found: &mut Vec<Diagnostic>) {
    // The grammar reports the deprecated ones.
    let is_accepted = |field: &str| {
        matches!(
            field,
            "enable_profiler" | "enable_input_output_latency" | "trace_log_duration_events"
        )
    };
    for (field, span) in config.places().filter(|(field, _)| !is_accepted(field)) {
        found.push(no_effect(span, field).hint(
            "every session counts and times the calls of its nodes in any case: see `Summary`",
        ));
    }
}

fn node(node: &DraftNode, found: &mut Vec<Diagnostic>) {
    let config = &node.config;
    if let Some(handler) = &config.output_stream_handler {
        output_handler(handler, found);
    }
    if let Some(merge) = config.options.as_ref().and_then(|it| it.merge_fields) {
        found.push(no_effect(merge.span, "merge_fields"));
    }
    // Without a factory the contract is unknown, and so is whether the node is a source.
    if node.factory.is_none() {
        return;
    }
    if let Some(layer) = &config.source_layer
        && layer.value != 0
        && !config.input_stream.is_empty()
    {
        let label = "only nodes without input streams have a layer";
        found.push(no_effect(layer.span, "source_layer").label(label));
    }
    if let Some(name) = config.executor.as_ref().filter(|name| !name.is_empty())
        && node.is_async
    {
        let label = "calls of this node are futures, which the session polls";
        found.push(no_effect(name.span, "executor").label(label));
    }
}

fn output_handler(handler: &OutputStreamHandlerConfig, found: &mut Vec<Diagnostic>) {
    if let Some(name) = &handler.output_stream_handler
        && name.as_str() != "InOrderOutputStreamHandler"
    {
        let message = format!("unknown output stream handler `{}`", name.as_str());
        found
            .push(refused(name.span, message).hint("the only one is `InOrderOutputStreamHandler`"));
    }
    if let Some(port) = handler.input_side_packet.first() {
        found.push(no_effect(port.span, "input_side_packet").label("the handler takes none"));
    }
    if let Some(options) = &handler.options {
        let place = options.head.unwrap_or(handler.head);
        found.push(no_effect(place, "options").label("the handler takes none"));
    }
}

/// Sets the number of calls of each node that may run at once. Must run after the places of nodes
/// are known.
pub(super) fn lanes(draft: &mut Draft<'_>) {
    let mut found = Vec::new();
    for node in &mut draft.nodes {
        let Some(limit) = node.config.max_in_flight.filter(|limit| limit.value != 1) else {
            continue;
        };
        if limit.value < 0 {
            let message = format!(
                "`max_in_flight` must not be negative, but is {}",
                limit.value
            );
            found.push(
                Diagnostic::error(&fields::INVALID_VALUE, limit.span, message)
                    .hint("give a number above 0, or leave out `max_in_flight`"),
            );
        } else if limit.value > 1 && node.factory.is_some() {
            match one_at_a_time(node) {
                None => node.lanes = limit.value.try_into().unwrap_or(u16::MAX),
                Some(label) => {
                    found.push(no_effect(limit.span, "max_in_flight").label(label));
                }
            }
        }
    }
    draft.diagnostics.extend(found);
}

/// Returns the reason why calls of a node cannot overlap; `None` if they can.
fn one_at_a_time(node: &DraftNode) -> Option<&'static str> {
    if node.config.input_stream.is_empty() {
        Some("calls of a source follow each other")
    } else if !node.contract.parallel || !node.contract.event_types.is_empty() {
        Some("calls of this calculator depend on each other, so they are made one at a time")
    } else if node.place == NodePlace::Inline && !node.is_async {
        Some("this node runs in the session's own task; name an `executor`")
    } else {
        None
    }
}
