//! The graph as a typed value: `CalculatorGraphConfig`, with every value's place.
//!
//! Lowering knows the schema and no calculator: it checks field names, types, ranges and the syntax
//! of port strings, and keeps option bodies as trees for code that knows their types. It reports
//! all errors and continues. A message with refused fields lists them, so that later phases do not
//! report them as missing.

mod legacy;
mod node;
mod options;
mod port;
mod settings;
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
pub use table::Refused;
use table::{Lowering, Table, message};

message! {
    /// A graph: `CalculatorGraphConfig`.
    pub struct GraphConfig = "CalculatorGraphConfig", finish = GraphConfig::check {
        /// The nodes, in order.
        "node" node: Vec<Node>;
        /// Packet factories; legacy.
        "packet_factory" packet_factory: Vec<PacketFactoryConfig>;
        /// Packet generators; deprecated in favor of calculators with side packets.
        "packet_generator" packet_generator: Vec<PacketGeneratorConfig>;
        /// Threads of the default executor; 0, -1 and absent leave the choice to the engine.
        "num_threads" num_threads: Option<Spanned<i32>>;
        /// Status handlers; legacy.
        "status_handler" status_handler: Vec<StatusHandlerConfig>;
        /// Streams that the graph takes in.
        "input_stream" input_stream: Vec<PortSpec>;
        /// Limit of every input queue of every node, in packets; 0 and absent are 100, -1 is no
        /// limit.
        "max_queue_size" max_queue_size: Option<Spanned<i32>>;
        /// Input policy of the nodes that set none.
        "input_stream_handler" input_stream_handler: Option<InputStreamHandlerConfig>;
        /// Output handler of the nodes that set none.
        "output_stream_handler" output_stream_handler: Option<OutputStreamHandlerConfig>;
        /// Executors.
        "executor" executor: Vec<ExecutorConfig>;
        /// Streams that the graph gives out.
        "output_stream" output_stream: Vec<PortSpec>;
        /// Side packets that the graph takes in.
        "input_side_packet" input_side_packet: Vec<PortSpec>;
        /// Side packets that the graph gives out.
        "output_side_packet" output_side_packet: Vec<PortSpec>;
        /// Profiling.
        "profiler_config" profiler_config: Option<ProfilerConfig>;
        /// Namespace in which calculators are looked up first.
        "package" package: Option<Spanned<String>>;
        /// Name under which the graph can be a node of another.
        "type" r#type: Option<Spanned<String>>;
        /// Whether a deadlock by full queues is an error instead of a reason to let them grow.
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
    /// The file that the graph was read from.
    pub fn file(&self) -> FileId {
        self.span.file
    }

    /// The graph's options in both forms, extensions first.
    pub fn all_options(&self) -> impl Iterator<Item = &OptionsMessage> {
        options::both(self.options.as_ref(), &self.graph_options)
    }

    fn check(&mut self, cx: &mut Lowering) {
        port::number(&mut self.input_stream, cx);
        port::number(&mut self.output_stream, cx);
        port::number(&mut self.input_side_packet, cx);
        port::number(&mut self.output_side_packet, cx);
        options::report_duplicates(&self.graph_options, cx);
    }
}

/// Reads a message that stands for a node outside of a graph, as in the options of a node that
/// contains others, and reports what is wrong with it. `head` is what to point to when speaking of
/// the node as a whole.
pub fn lower_node(message: &ast::Message, head: Span) -> (Node, Vec<Diagnostic>) {
    let mut cx = Lowering::default();
    let node = table::lower(message, head, &mut cx);
    (node, cx.diagnostics.into_vec())
}

/// The messages of the format with the names of their fields, as this crate reads them: what a
/// program that promises to honor every field goes through.
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

/// The names of a graph's own fields.
pub(crate) fn field_names() -> &'static [&'static str] {
    GraphConfig::FIELDS
}

/// Lowers a parsed file to a graph and reports what is wrong with it.
///
/// The graph is as complete as the file allows; it may be run only if there is no error among the
/// diagnostics of both [`crate::parse()`] and this function. A file whose delimiters do not match
/// is not looked at.
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
    if let Some(first) = root
        .fields
        .first()
        .filter(|_| !root.incomplete && !root.fields.iter().any(known))
    {
        let name = &first.name;
        let mut cx = Lowering::default();
        // A misspelt name is worth more than the news that the file is no graph.
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
