//! Plans: graphs compiled once and run any number of times.
//!
//! A plan is immutable. It resolves everything that sessions need to indexes: the queues that a
//! stream feeds, the packet type that it carries, the resource that a side packet names. Nodes are
//! numbered in topological order, so a higher number is nearer to the outputs. [`Plan::compile`]
//! makes plans.

mod explain;
mod totals;

use std::{
    any::Any,
    ops::Range,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use crossbeam_utils::CachePadded;
pub use explain::{Explain, ExplainNode, ExplainPort};
pub(crate) use totals::Ledger;
pub use totals::{NodeTotals, Totals};

use crate::{
    calculator::erased::Factory,
    error::{Error, Result},
    lanes::Lane,
    packet::{Packet, TypeInfo, type_names},
    policy::Policy,
    resource::{AnyResource, Resource},
};

/// A compiled graph, shared by all of its sessions.
pub struct Plan {
    pub(crate) nodes: Vec<PlanNode>,
    /// Nodes without inputs that make packets.
    pub(crate) sources: Box<[u16]>,
    /// Inputs of all nodes. Those of one node are adjacent.
    pub(crate) inputs: Vec<PlanInput>,
    /// Streams of the outputs of all nodes. Those of one node are adjacent.
    pub(crate) outputs: Vec<u32>,
    pub(crate) streams: Vec<PlanStream>,
    pub(crate) sides: Vec<PlanSide>,
    pub(crate) graph_inputs: Vec<GraphPort>,
    pub(crate) graph_outputs: Vec<GraphPort>,
    pub(crate) executors: Vec<Lane>,
    pub(crate) report_deadlock: bool,
    pub(crate) explain: Explain,
    /// Set if a node needs a resource that was not loaded.
    pub(crate) unloaded: Option<String>,
    /// Data that the surrounding program keeps with the plan.
    pub(crate) attached: OnceLock<Arc<dyn Any + Send + Sync>>,
    /// Number of open sessions. On its own cache line: every session changes it, while the fields
    /// beside it are read for every packet.
    pub(crate) open_sessions: CachePadded<AtomicUsize>,
    /// Totals of ended sessions, on their own cache line for the same reason.
    pub(crate) ledger: CachePadded<Ledger>,
}

/// A node of a plan.
pub(crate) struct PlanNode {
    pub(crate) name: Arc<str>,
    pub(crate) factory: Factory,
    pub(crate) inputs: Range<usize>,
    pub(crate) outputs: Range<usize>,
    /// Timestamp offsets of the outputs, in order.
    pub(crate) offsets: Box<[Option<i64>]>,
    pub(crate) policy: Policy,
    /// Set if the node is also called at settled timestamps without packets.
    pub(crate) bounds: bool,
    pub(crate) place: NodePlace,
    /// Number of calls that may run at once.
    pub(crate) lanes: u16,
    /// Set if packets behind the head of a queue can make the node ready.
    pub(crate) batches: bool,
    /// Set if a consumer can notice the order of packets on two of the outputs.
    pub(crate) by_stream: bool,
    pub(crate) sides: Box<[SideSource]>,
    pub(crate) side_outputs: Box<[u32]>,
    pub(crate) layer: i32,
    pub(crate) has_events: bool,
    /// Nodes whose outputs this node reads, without back edges. They open first.
    pub(crate) upstream: Box<[u16]>,
}

impl PlanNode {
    /// Returns `true` if the node makes packets without inputs or events.
    pub(crate) fn is_source(&self) -> bool {
        self.inputs.is_empty() && !self.outputs.is_empty() && !self.has_events
    }
}

/// The place where a node runs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodePlace {
    Inline,
    /// On the executor at this position of the plan.
    Executor(u16),
}

/// An input of a node.
pub(crate) struct PlanInput {
    pub(crate) node: u16,
    pub(crate) stream: u32,
    pub(crate) back_edge: bool,
    /// Number of packets in the queue at which the stream's producer waits; `usize::MAX` for no
    /// limit.
    pub(crate) limit: usize,
}

/// A stream: one producer, any number of consumers.
pub(crate) struct PlanStream {
    pub(crate) name: Arc<str>,
    pub(crate) producer: Producer,
    /// Consumers, as positions in `Plan::inputs`.
    pub(crate) consumers: Box<[u32]>,
    /// Allowed types of packets, if the producer's port does not guarantee them. Empty if every
    /// type is allowed.
    pub(crate) check: Box<[TypeInfo]>,
}

impl PlanStream {
    /// Checks the type of a packet. The error names the stream and the allowed types.
    pub(crate) fn check_type(&self, packet: &Packet) -> Result<()> {
        if self.check.is_empty() || self.check.contains(&packet.type_info()) {
            return Ok(());
        }
        let (name, carried) = (&self.name, type_names(&self.check));
        let (at, of) = (packet.time, packet.type_info());
        Err(Error::invalid(format!(
            "stream `{name}` carries {carried}, but the packet at {at} is `{of}`"
        )))
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Producer {
    Node(u16),
    /// The input of the graph at this position of `Plan::graph_inputs`.
    Graph(u16),
}

/// A side packet of the graph.
pub(crate) struct PlanSide {
    pub(crate) name: Arc<str>,
    /// Set if a node makes it.
    pub(crate) produced: bool,
    /// Set if it must be given at the start of a session.
    pub(crate) required: bool,
    /// Allowed types; empty if every type is allowed.
    pub(crate) check: Box<[TypeInfo]>,
}

impl PlanSide {
    /// Returns `true` if the packet has an allowed type.
    pub(crate) fn takes(&self, packet: &Packet) -> bool {
        self.check.is_empty() || self.check.contains(&packet.type_info())
    }
}

/// The source of an input side packet's value.
#[derive(Clone)]
pub(crate) enum SideSource {
    /// The side packet at this position of `Plan::sides`.
    Packet(u32),
    Resource(AnyResource),
    Unloaded,
}

/// An input or output stream of the graph.
#[derive(Clone, Debug)]
pub(crate) struct GraphPort {
    pub(crate) tag: String,
    pub(crate) index: u32,
    pub(crate) name: Arc<str>,
    pub(crate) stream: u32,
    /// Possible types of its packets; empty if every type is possible.
    pub(crate) types: Box<[TypeInfo]>,
}

impl GraphPort {
    fn tagged(&self) -> (&str, &str) {
        (&self.tag, &self.name)
    }
}

impl Plan {
    /// Iterates over the names of the graph's input streams, in order.
    pub fn graph_inputs(&self) -> impl Iterator<Item = &str> {
        self.graph_inputs.iter().map(|port| &*port.name)
    }

    /// Iterates over the names of the graph's output streams, in order.
    pub fn graph_outputs(&self) -> impl Iterator<Item = &str> {
        self.graph_outputs.iter().map(|port| &*port.name)
    }

    /// Iterates over the graph's input streams as pairs of tag, which may be empty, and name.
    pub fn tagged_inputs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.graph_inputs.iter().map(GraphPort::tagged)
    }

    /// Iterates over the graph's output streams as pairs of tag, which may be empty, and name.
    pub fn tagged_outputs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.graph_outputs.iter().map(GraphPort::tagged)
    }

    /// Attaches data of the surrounding program to the plan. Only the first call has an effect.
    pub fn attach<T: Any + Send + Sync>(&self, value: T) {
        self.attached.get_or_init(|| Arc::new(value));
    }

    /// Returns the attached data, if it is a `T`.
    pub fn attached<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.attached.get()?.downcast_ref()
    }

    /// Returns the name of the graph's input stream with this tag and index 0.
    pub fn input_with_tag(&self, tag: &str) -> Option<&str> {
        with_tag(&self.graph_inputs, tag)
    }

    /// Returns the name of the graph's output stream with this tag and index 0.
    pub fn output_with_tag(&self, tag: &str) -> Option<&str> {
        with_tag(&self.graph_outputs, tag)
    }

    /// Returns the types that an input stream of the graph takes, empty if any. `None` if there is
    /// no such input.
    pub fn input_types(&self, stream: &str) -> Option<&[TypeInfo]> {
        types_of(&self.graph_inputs, stream)
    }

    /// Returns the possible types of an output stream of the graph, empty if any. `None` if there
    /// is no such output.
    pub fn output_types(&self, stream: &str) -> Option<&[TypeInfo]> {
        types_of(&self.graph_outputs, stream)
    }

    /// Returns the allowed types of a side packet, empty if any. `None` if no node has it.
    pub fn side_types(&self, name: &str) -> Option<&[TypeInfo]> {
        let side = self.sides.iter().find(|side| &*side.name == name)?;
        Some(&side.check)
    }

    /// Returns the resources of type `R` that nodes of the graph use, each once.
    pub fn resources<R: Resource>(&self) -> Vec<Arc<R>> {
        let mut found: Vec<Arc<R>> = Vec::new();
        for side in self.nodes.iter().flat_map(|node| node.sides.iter()) {
            if let SideSource::Resource(resource) = side
                && let Ok(resource) = Arc::clone(resource).downcast::<R>()
                && !found.iter().any(|other| Arc::ptr_eq(other, &resource))
            {
                found.push(resource);
            }
        }
        found
    }

    /// Returns the number of sessions of the plan that exist now.
    pub fn open_sessions(&self) -> usize {
        self.open_sessions.load(Ordering::Relaxed)
    }

    /// Returns the totals of the plan's ended sessions.
    pub fn totals(&self) -> Totals {
        self.ledger.read()
    }

    /// Returns `true` if one packet on each input leads to at most one packet on each output. This
    /// is so if all output timestamps follow from the inputs, the graph has no loop, and no node is
    /// a source.
    pub fn answers_once(&self) -> bool {
        let is_tied = |node: &PlanNode| node.offsets.iter().all(Option::is_some);
        self.sources.is_empty()
            && self.nodes.iter().all(is_tied)
            && !self.inputs.iter().any(|input| input.back_edge)
    }

    /// Iterates over the names of the nodes, in topological order.
    pub fn node_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.nodes.iter().map(|node| &*node.name)
    }

    /// Iterates over the names of all streams.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = &str> {
        self.streams.iter().map(|stream| &*stream.name)
    }

    /// Iterates over all inputs of nodes, each with the stream that it reads.
    pub fn edges(&self) -> impl ExactSizeIterator<Item = Edge> {
        self.inputs.iter().enumerate().map(|(number, input)| {
            let node = usize::from(input.node);
            let first = self.nodes[node].inputs.start;
            Edge {
                stream: input.stream as usize,
                node,
                port: self.explain.nodes[node].inputs[number - first].tag_and_index(),
                bound: (!input.back_edge && input.limit != usize::MAX).then_some(input.limit),
            }
        })
    }

    /// Returns the number of jobs of the plan's sessions that wait for an executor.
    pub fn jobs_waiting(&self) -> usize {
        self.executors.iter().map(Lane::waiting).sum()
    }

    /// Returns the number of sessions that were refused because too many jobs waited.
    pub fn sessions_refused(&self) -> u64 {
        self.executors.iter().map(Lane::refused).sum()
    }

    /// Returns the expanded graph with everything that compilation resolved.
    pub fn explain(&self) -> &Explain {
        &self.explain
    }

    pub(crate) fn stream(&self, name: &str) -> Option<u32> {
        let mut streams = self.streams.iter();
        let found = streams.position(|stream| &*stream.name == name);
        found.map(|found| found as u32)
    }

    /// Returns the position of the stream with this name.
    pub(crate) fn find_stream(&self, name: &str) -> Result<u32> {
        self.stream(name)
            .ok_or_else(|| Error::not_found(format!("the graph has no stream `{name}`")))
    }

    pub(crate) fn session_opened(&self) {
        self.open_sessions.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn session_closed(&self) {
        self.open_sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An input of a node and the stream that it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Position of the stream in [`Plan::streams`].
    pub stream: usize,
    /// Position of the node in [`Plan::node_names`].
    pub node: usize,
    /// Tag and index of the input: `TAG:0`, or `:0` without a tag.
    pub port: String,
    /// Initial limit of packets in its queue; `None` for no limit.
    pub bound: Option<usize>,
}

fn types_of<'a>(ports: &'a [GraphPort], stream: &str) -> Option<&'a [TypeInfo]> {
    let port = ports.iter().find(|port| &*port.name == stream)?;
    Some(&port.types)
}

fn with_tag<'a>(ports: &'a [GraphPort], tag: &str) -> Option<&'a str> {
    let mut ports = ports.iter();
    let port = ports.find(|port| port.tag == tag && port.index == 0)?;
    Some(&port.name)
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.nodes.iter().map(|node| &node.name);
        f.debug_struct("Plan")
            .field("nodes", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
