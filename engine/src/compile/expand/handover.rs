//! Settings of a node that is a subgraph. They go to the primary inner node; without one they are
//! errors.

use graphmill_grammar::{Diagnostic, GraphConfig, Node, OptionsMessage, Span, graph::Extensions};

use crate::codes::{calculators, subgraphs};

/// Gives the outer node's settings to the primary inner node, except for options that the subgraph
/// itself has `declared`.
pub(super) fn hand_over(
    outer: &Node,
    inner: &mut Node,
    declared: impl Fn(&OptionsMessage) -> bool,
) {
    let outer_options = outer.all_options().filter(|message| !declared(message));
    let outer_options: Vec<&OptionsMessage> = outer_options.collect();
    let given = |message: &OptionsMessage| {
        let mut outer = outer_options.iter();
        outer.any(|outer| outer.type_name() == message.type_name())
    };
    inner.node_options.retain(|message| !given(message));
    if let Some(options) = &mut inner.options {
        options.messages.retain(|message| !given(message));
    }
    let handed = |messages: &[OptionsMessage]| -> Vec<OptionsMessage> {
        let handed = messages.iter().filter(|message| !declared(message));
        handed.cloned().collect()
    };
    inner.node_options.extend(handed(&outer.node_options));
    if let Some(options) = &outer.options {
        let target = inner.options.get_or_insert_with(Extensions::default);
        target.messages.extend(handed(&options.messages));
        target.head = target.head.or(options.head);
    }
    if !outer.input_stream_info.is_empty() {
        inner.input_stream_info.clone_from(&outer.input_stream_info);
    }
    let handler = outer.input_stream_handler.clone();
    inner.input_stream_handler = handler.or(inner.input_stream_handler.take());
    inner.executor = outer.executor.clone().or(inner.executor.take());
    inner.max_in_flight = outer.max_in_flight.or(inner.max_in_flight);
}

/// Reports settings that would be ignored, except for options.
pub(super) fn refuse_fields(
    outer: &Node,
    subgraph: &str,
    has_primary: bool,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for (field, span) in outer.places() {
        let is_refused = match field {
            "source_layer" | "buffer_size_hint" | "output_stream_handler" => true,
            "input_stream_info" | "input_stream_handler" | "executor" | "max_in_flight" => {
                !has_primary
            }
            _ => false,
        };
        if is_refused {
            diagnostics.push(only_calculators(field, span, subgraph));
        }
    }
}

/// Reports a field that a node cannot have if it is a subgraph.
pub(super) fn only_calculators(field: &str, span: Span, subgraph: &str) -> Diagnostic {
    let message = format!("`{field}` cannot be set on a node that is the subgraph `{subgraph}`");
    Diagnostic::error(&calculators::SUBGRAPH_FIELD, span, message)
        .label("only calculators have this")
}

/// Warns about settings that a graph loses when it is used as a node.
pub(super) fn warn_of_settings(
    graph: &GraphConfig,
    subgraph: &str,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let settings = [
        "num_threads",
        "max_queue_size",
        "report_deadlock",
        "input_stream_handler",
        "output_stream_handler",
        "executor",
        "profiler_config",
        "runtime_info",
    ];
    for (field, span) in graph.places().filter(|(field, _)| settings.contains(field)) {
        let message =
            format!("`{field}` of the graph `{subgraph}` has no effect where the graph is a node");
        diagnostics.push(
            Diagnostic::warning(&subgraphs::SETTING, span, message)
                .hint(format!("set `{field}` in the graph that is run")),
        );
    }
}
