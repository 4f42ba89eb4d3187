//! The graph as a typed value: `CalculatorGraphConfig` with the location of every value.
//!
//! Lowering knows the schema but no calculator. It checks field names, types, ranges and the syntax
//! of port strings. Option bodies stay trees, which code that knows their types reads later. It
//! reports all errors and continues. A message with refused fields lists these, so that later
//! phases do not report them as missing.

mod legacy;
mod node;
mod numbering;
mod options;
mod port;
mod settings;
mod slot;
pub(crate) mod table;

pub use legacy::{PacketFactoryConfig, PacketGeneratorConfig, StatusHandlerConfig};
pub use node::{InputStreamInfo, Node, OptionValue};
pub use options::{Extensions, OptionsKind, OptionsMessage};
pub use port::{MAX_INDEX, PortSpec, TagIndex};
pub use settings::{
    ExecutorConfig, GraphRuntimeInfoConfig, InputStreamHandlerConfig, OutputStreamHandlerConfig,
    ProfilerConfig,
};

use crate::ast;
use crate::codes::fields;
use crate::diag::Diagnostic;
use crate::span::{FileId, Span, Spanned};
pub use table::RefusedFields;
use table::{Lowering, Table, message};

message! {
    /// A graph, the message `CalculatorGraphConfig`.
    pub struct GraphConfig = "CalculatorGraphConfig", finish = GraphConfig::check {
        /// Nodes in the order of the file.
        "node" node: Vec<Node>;
        /// Packet factories, which the engine does not support.
        "packet_factory" packet_factory: Vec<PacketFactoryConfig>;
        /// Packet generators; replaced by calculators with side packets.
        "packet_generator" packet_generator: Vec<PacketGeneratorConfig>;
        /// Number of threads of the default executor. With 0, -1 or none, the engine chooses.
        "num_threads" num_threads: Option<Spanned<i32>>;
        /// Status handlers, which the engine does not support.
        "status_handler" status_handler: Vec<StatusHandlerConfig>;
        /// Input streams of the graph.
        "input_stream" input_stream: Vec<PortSpec>;
        /// Limit of packets in every input queue of every node. The default and 0 are 100; -1 is no
        /// limit.
        "max_queue_size" max_queue_size: Option<Spanned<i32>>;
        /// Input policy of the nodes that set none.
        "input_stream_handler" input_stream_handler: Option<InputStreamHandlerConfig>;
        /// Output handler of the nodes that set none.
        "output_stream_handler" output_stream_handler: Option<OutputStreamHandlerConfig>;
        /// Executors that the graph declares.
        "executor" executor: Vec<ExecutorConfig>;
        /// Output streams of the graph.
        "output_stream" output_stream: Vec<PortSpec>;
        /// Input side packets of the graph.
        "input_side_packet" input_side_packet: Vec<PortSpec>;
        /// Output side packets of the graph.
        "output_side_packet" output_side_packet: Vec<PortSpec>;
        /// Settings of profiling and tracing.
        "profiler_config" profiler_config: Option<ProfilerConfig>;
        /// Namespace in which calculators are looked up first.
        "package" package: Option<Spanned<String>>;
        /// Name by which other graphs use this graph as a node.
        "type" r#type: Option<Spanned<String>>;
        /// Makes a deadlock caused by full queues an error. By default the queues grow.
        "report_deadlock" report_deadlock: Option<Spanned<bool>>;
        /// Periodic report of the graph's state.
        "runtime_info" runtime_info: Option<GraphRuntimeInfoConfig>;
        /// Options of the graph in extension form.
        "options" options: Option<Extensions>;
        /// Options of the graph with type URLs.
        "graph_options" graph_options: Vec<OptionsMessage>;
    }
}

impl GraphConfig {
    /// Returns the file that the graph was read from.
    pub fn file(&self) -> FileId {
        self.span.file
    }

    /// Iterates over the graph's options in both forms, extensions first.
    pub fn all_options(&self) -> impl Iterator<Item = &OptionsMessage> {
        options::both(self.options.as_ref(), &self.graph_options)
    }

    fn check(&mut self, cx: &mut Lowering) {
        numbering::number(&mut self.input_stream, cx);
        numbering::number(&mut self.output_stream, cx);
        numbering::number(&mut self.input_side_packet, cx);
        numbering::number(&mut self.output_side_packet, cx);
        options::report_duplicates(&self.graph_options, cx);
    }
}

/// Reads a message that is a node outside a graph, as in the options of a node that contains
/// others, and reports its mistakes. `head` is the location of diagnostics about the whole node.
pub fn lower_node(message: &ast::Message, head: Span) -> (Node, Vec<Diagnostic>) {
    let mut cx = Lowering::default();
    let node = table::lower(message, head, &mut cx);
    (node, cx.diagnostics.into_vec())
}

/// Messages of the format with the names of their fields, as this crate reads them. Programs that
/// must honor every field check this list.
pub const MESSAGES: &[(&str, &[&str])] = &[
    (GraphConfig::NAME, GraphConfig::FIELDS),
    (Node::NAME, Node::FIELDS),
    (InputStreamInfo::NAME, InputStreamInfo::FIELDS),
    (ExecutorConfig::NAME, ExecutorConfig::FIELDS),
    (
        InputStreamHandlerConfig::NAME,
        InputStreamHandlerConfig::FIELDS,
    ),
    (
        OutputStreamHandlerConfig::NAME,
        OutputStreamHandlerConfig::FIELDS,
    ),
    (ProfilerConfig::NAME, ProfilerConfig::FIELDS),
    (GraphRuntimeInfoConfig::NAME, GraphRuntimeInfoConfig::FIELDS),
    (PacketGeneratorConfig::NAME, PacketGeneratorConfig::FIELDS),
    (PacketFactoryConfig::NAME, PacketFactoryConfig::FIELDS),
    (StatusHandlerConfig::NAME, StatusHandlerConfig::FIELDS),
];

/// Returns the names of a graph's own fields.
pub(crate) fn field_names() -> &'static [&'static str] {
    GraphConfig::FIELDS
}

/// Lowers a parsed file to a graph and reports its mistakes.
///
/// The graph is as complete as the file allows. It may run only if neither [`crate::parse()`] nor
/// this function has reported an error. There is no graph if the delimiters of the file do not
/// match.
pub fn lower(file: &ast::File) -> (Option<GraphConfig>, Vec<Diagnostic>) {
    if !file.balanced {
        return (None, Vec::new());
    }
    let root = &file.root;
    let known = |field: &ast::Field| {
        field
            .name
            .as_plain()
            .is_some_and(|name| GraphConfig::FIELDS.contains(&name))
    };
    if let Some(first) = root.fields.first()
        && !root.incomplete
        && !root.fields.iter().any(known)
    {
        let name = &first.name;
        let mut cx = Lowering::default();
        // The correction of a misspelled name helps more than the statement that the file is not a
        // graph.
        let unknown = table::unknown(
            first,
            GraphConfig::NAME,
            GraphConfig::FIELDS.iter().copied(),
        );
        if unknown.hints.is_empty() {
            let message = format!("not a graph: `{}` has no field `{name}`", GraphConfig::NAME);
            cx.report(
                Diagnostic::error(&fields::NOT_A_GRAPH, name.span, message)
                    .label("unknown field")
                    .hint("none of the fields in this file is a field of a graph: it is another kind of message"),
            );
            return (None, cx.diagnostics.into_vec());
        }
    }
    let mut cx = Lowering::default();
    let graph = table::lower(root, root.span.at_start(), &mut cx);
    (Some(graph), cx.diagnostics.into_vec())
}
