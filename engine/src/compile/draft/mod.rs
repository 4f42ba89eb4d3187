//! The draft of a plan: the results of the phases of compilation so far.

pub(super) mod contracts;
pub(super) mod ports;

use std::collections::HashMap;

use graphmill_grammar::{
    Diagnostic, GraphConfig, Node, Span, diag::MAX_LISTED, graph::InputStreamHandlerConfig, suggest,
};

use crate::{
    calculator::erased::Factory,
    contract::{Contract, Group},
    lanes::Lane,
    packet::TypeInfo,
    plan::{NodePlace, Producer},
    policy::Policy,
    registry::environment::Environment,
    resource::AnyResource,
    tags::TagEntry,
};

pub(super) struct Draft<'a> {
    pub(super) graph: &'a GraphConfig,
    pub(super) environment: &'a Environment,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) nodes: Vec<DraftNode>,
    pub(super) streams: Vec<DraftStream>,
    pub(super) stream_ids: HashMap<String, u32>,
    pub(super) sides: Vec<DraftSide>,
    pub(super) side_ids: HashMap<String, u32>,
    /// Executors in the order of their first use. The name of the default one is empty.
    pub(super) executors: Vec<(String, Lane)>,
    /// Set if a part of the graph could not be read: there will be no plan.
    pub(super) incomplete: bool,
    /// Set if the unreadable part may contain a producer of a stream.
    pub(super) streams_in_doubt: bool,
    /// Set if the unreadable part may contain a producer of a side packet.
    pub(super) sides_in_doubt: bool,
}

/// A node of the expanded graph.
pub(super) struct DraftNode {
    pub(super) config: Node,
    pub(super) name: String,
    /// Subgraphs around the node, outermost first.
    pub(super) within: Vec<String>,
    /// Set for a subgraph or container that could not be expanded, which has been reported. Only
    /// its streams count.
    pub(super) is_wrong: bool,
    /// Set if the calculator's name is unknown, which has been reported.
    pub(super) is_unknown: bool,
    /// Set if the file spreads the node over several lines.
    pub(super) has_lines: bool,
    pub(super) contract: Contract,
    /// Absent if the calculator is unknown or its options are wrong.
    pub(super) factory: Option<Factory>,
    /// Set if the calculator is async, so that its calls are futures.
    pub(super) is_async: bool,
    /// Streams of the inputs, once known.
    pub(super) inputs: Vec<Option<u32>>,
    pub(super) back_edges: Vec<bool>,
    pub(super) outputs: Vec<u32>,
    pub(super) policy: Policy,
    pub(super) place: NodePlace,
    /// Number of calls that may run at once.
    pub(super) lanes: u16,
}

pub(super) struct DraftStream {
    pub(super) name: String,
    pub(super) producer: Producer,
    pub(super) span: Span,
    /// Consumers, as pairs of node and input.
    pub(super) consumers: Vec<(u16, u16)>,
    pub(super) types: Vec<TypeInfo>,
    pub(super) check: bool,
}

pub(super) struct DraftSide {
    pub(super) name: String,
    /// Producer, as a pair of node and output.
    pub(super) producer: Option<(u16, u16)>,
    pub(super) span: Span,
    pub(super) required: bool,
    pub(super) types: Vec<TypeInfo>,
    /// Present if the name is that of a resource.
    pub(super) resource: Option<DraftResource>,
}

pub(super) struct DraftResource {
    pub(super) of: TypeInfo,
    /// Node that defines the resource, and position of the definition in its contract.
    pub(super) defined: Option<(u16, u16)>,
    pub(super) loaded: Option<AnyResource>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(graph: &'a GraphConfig, environment: &'a Environment) -> Self {
        let refused = |graph_field: &str, node_field: &str| {
            let mut nodes = graph.node.iter();
            graph.refused.may_be("node")
                || graph.refused.may_be(graph_field)
                || nodes.any(|node| node.refused.may_be(node_field))
        };
        Self {
            graph,
            environment,
            diagnostics: Vec::new(),
            nodes: Vec::new(),
            streams: Vec::new(),
            stream_ids: HashMap::new(),
            sides: Vec::new(),
            side_ids: HashMap::new(),
            executors: Vec::new(),
            incomplete: !graph.refused.is_empty(),
            streams_in_doubt: refused("input_stream", "output_stream"),
            sides_in_doubt: refused("input_side_packet", "output_side_packet"),
        }
    }

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Returns the existing name that is probably meant by an unknown one. Returns `None` after
    /// many mistakes, because more suggestions would not help.
    pub(super) fn nearest<'b>(
        &self,
        name: &str,
        candidates: impl Iterator<Item = &'b str>,
    ) -> Option<&'b str> {
        (self.diagnostics.len() < MAX_LISTED)
            .then(|| suggest::nearest(name, candidates))
            .flatten()
    }

    pub(super) fn package(&self) -> &'a str {
        self.graph.package.as_deref().map_or("", String::as_str)
    }
}

impl DraftNode {
    pub(super) fn calculator(&self) -> &str {
        let name = self.config.calculator.as_deref();
        name.map_or("", String::as_str)
    }

    pub(super) fn port(&self, group: Group, index: usize) -> &TagEntry {
        &self.contract.tag_map(group).entries()[index]
    }

    /// Returns `true` if the node is in the graph's own file and not in that of a subgraph.
    pub(super) fn is_top_level(&self) -> bool {
        self.within.is_empty()
    }

    /// Returns the edit that adds a field at the end of the node.
    pub(super) fn addition(&self, field: &str) -> Option<(Span, String)> {
        let mut end = self.config.span.at_end();
        end.start = end.start.checked_sub(1)?;
        end.end = end.start;
        let text = if self.has_lines {
            format!("  {field}\n")
        } else {
            format!("{field} ")
        };
        (self.is_top_level() && !self.config.span.is_none()).then_some((end, text))
    }

    pub(super) fn port_label(&self, group: Group, index: usize) -> String {
        self.contract.tag_map(group).label(index)
    }

    /// Returns the input policy set by the graph file, for the node or for the whole graph.
    pub(super) fn handler<'b>(
        &'b self,
        graph: &'b GraphConfig,
    ) -> Option<&'b InputStreamHandlerConfig> {
        let own = self.config.input_stream_handler.as_ref();
        own.or(graph.input_stream_handler.as_ref())
    }
}
