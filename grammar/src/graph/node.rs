//! A node of a graph, with the parts that only nodes have.

use super::numbering;
use super::options::{self, Extensions, OptionsMessage};
use super::port::{PortSpec, TagIndex};
use super::settings::{InputStreamHandlerConfig, OutputStreamHandlerConfig, ProfilerConfig};
use super::slot::Read;
use super::table::{Lowering, message};
use crate::ast::{Field, Value, ValueKind};
use crate::codes::fields;
use crate::diag::Diagnostic;
use crate::scalar;
use crate::span::{Span, Spanned};

message! {
    /// A node of a graph, the message `CalculatorGraphConfig.Node`.
    pub struct Node = "Node", finish = Node::check {
        /// Name of the node; the default is the calculator's name.
        "name" name: Option<Spanned<String>>;
        /// Name of the registered calculator or subgraph.
        "calculator" calculator: Option<Spanned<String>>;
        /// Input streams, each with its tag and index.
        "input_stream" input_stream: Vec<PortSpec>;
        /// Output streams, each with its tag and index.
        "output_stream" output_stream: Vec<PortSpec>;
        /// Input side packets, each with its tag and index.
        "input_side_packet" input_side_packet: Vec<PortSpec>;
        /// Output side packets, each with its tag and index.
        "output_side_packet" output_side_packet: Vec<PortSpec>;
        /// Options of the node in extension form.
        "options" options: Option<Extensions>;
        /// Options of the node with type URLs.
        "node_options" node_options: Vec<OptionsMessage>;
        /// Layer of a source node. It starts when the sources of all lower layers are closed.
        "source_layer" source_layer: Option<Spanned<i32>>;
        /// Number of packets that a queue should be able to hold. Raises the limit of all queues of
        /// the graph.
        "buffer_size_hint" buffer_size_hint: Option<Spanned<i32>>;
        /// Input policy with its options.
        "input_stream_handler" input_stream_handler: Option<InputStreamHandlerConfig>;
        /// Output handler with its options.
        "output_stream_handler" output_stream_handler: Option<OutputStreamHandlerConfig>;
        /// Settings of single inputs: back edges.
        "input_stream_info" input_stream_info: Vec<InputStreamInfo>;
        /// Name of its executor; the default executor if absent or empty.
        "executor" executor: Option<Spanned<String>>;
        /// Profiling settings, which have no effect on a node.
        "profiler_config" profiler_config: Option<Box<ProfilerConfig>>, deprecated = "it has no effect on a node: set `profiler_config` of the graph";
        /// Number of calls of `process` that may run at once; the default and 0 are one.
        "max_in_flight" max_in_flight: Option<Spanned<i32>>;
        /// Option fields that take their values from the graph's options.
        "option_value" option_value: Vec<OptionValue>;
        /// Old name of `input_side_packet`, without effect.
        "external_input" external_input: Vec<Spanned<String>>, deprecated = "it has no effect: use `input_side_packet`";
    }
}

message! {
    /// Settings of one input of a node.
    pub struct InputStreamInfo = "InputStreamInfo" {
        /// Tag and index of the input; the default is the first one without a tag.
        "tag_index" tag_index: Option<TagIndex>;
        /// Set if the stream closes a loop.
        "back_edge" back_edge: Option<Spanned<bool>>;
    }
}

impl Node {
    /// Iterates over the node's options in both forms, extensions first. If one type is given in
    /// both, the first one wins.
    pub fn all_options(&self) -> impl Iterator<Item = &OptionsMessage> {
        options::both(self.options.as_ref(), &self.node_options)
    }

    /// Returns the location for diagnostics about the node: its calculator, or its start.
    pub fn place(&self) -> Span {
        self.calculator.as_ref().map_or(self.head, |it| it.span)
    }

    fn check(&mut self, cx: &mut Lowering) {
        numbering::number(&mut self.input_stream, cx);
        numbering::number(&mut self.output_stream, cx);
        numbering::number(&mut self.input_side_packet, cx);
        numbering::number(&mut self.output_side_packet, cx);
        options::report_duplicates(&self.node_options, cx);
        let is_missing = self.calculator.as_ref().is_none_or(|it| it.is_empty());
        if is_missing && !self.refused.may_be("calculator") {
            let place = self.place();
            cx.report(
                Diagnostic::error(&fields::MISSING_FIELD, place, "node without a `calculator`")
                    .label("which calculator does this node run?")
                    .hint("add `calculator: \"..\"` with the name of a calculator or subgraph"),
            );
            self.refused.field("calculator");
        }
    }
}

/// An option field that takes its value from the graph's options: `"node_field:graph_field"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionValue {
    /// Path of the node's option field, with `/` between its steps.
    pub field: Spanned<String>,
    /// Path of the graph's option field with the value.
    pub source: Spanned<String>,
}

impl Read for OptionValue {
    fn read(value: &Value, field: &Field, cx: &mut Lowering) -> Option<Self> {
        let text = cx.accept(scalar::string(value), value, field)?;
        // The separator is a single colon; `Ext::package.Type` inside a path has two.
        let colon = text.char_indices().find(|&(i, c)| {
            c == ':' && !text[i + 1..].starts_with(':') && !text[..i].ends_with(':')
        });
        let Some((colon, _)) = colon.filter(|&(i, _)| i > 0 && i + 1 < text.len()) else {
            cx.report(
                Diagnostic::error(&fields::INVALID_VALUE, value.span, "`option_value` is not of the form `field:source`")
                    .label("expected `node_field:graph_field`")
                    .hint("write the node's option field, a colon, and the graph's option field: `\"threshold:options/threshold\"`"),
            );
            return None;
        };
        let ValueKind::String(string) = &value.value else {
            return None;
        };
        let part = |range: std::ops::Range<usize>| {
            Spanned::new(text[range.clone()].to_owned(), string.span_of(range))
        };
        Some(Self {
            field: part(0..colon),
            source: part(colon + 1..text.len()),
        })
    }

    fn place(&self) -> Span {
        self.field.span
    }

    fn to_value(&self) -> ValueKind {
        ValueKind::text(format!("{}:{}", self.field, self.source))
    }
}
