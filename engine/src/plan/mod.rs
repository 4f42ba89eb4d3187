//! Plans: a graph compiled once, run any number of times.
//!
//! A plan is immutable. Everything a session needs is resolved to an index here: which queue a
//! stream feeds, which packet type it carries, which resource a side packet names. Nodes are
//! numbered in topological order, so that a higher number is nearer to the outputs.
//! [`Plan::compile`] makes one.

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
    packet::{Packet, TypeInfo},
    policy::Policy,
    resource::{AnyResource, Resource},
};

/// A compiled graph.
pub struct Plan {
    pub(crate) nodes: Vec<PlanNode>,
    /// The nodes that make packets by themselves.
    pub(crate) sources: Box<[u16]>,
    /// The inputs of all nodes; those of one node are adjacent.
    pub(crate) inputs: Vec<PlanInput>,
    /// The streams written by the outputs of all nodes; those of one node are adjacent.
    pub(crate) outputs: Vec<u32>,
    pub(crate) streams: Vec<PlanStream>,
    pub(crate) sides: Vec<PlanSide>,
    pub(crate) graph_inputs: Vec<GraphPort>,
    pub(crate) graph_outputs: Vec<GraphPort>,
    pub(crate) executors: Vec<Lane>,
    pub(crate) report_deadlock: bool,
    pub(crate) explain: Explain,
    /// A node needs a resource that was not loaded.
    pub(crate) unloaded: Option<String>,
    /// What the program that serves the plan knows of it.
    pub(crate) attached: OnceLock<Arc<dyn Any + Send + Sync>>,
    /// On a cache line of its own: every session changes it, and all read what is beside it for
    /// every packet.
    pub(crate) open_sessions: CachePadded<AtomicUsize>,
    /// What its sessions did that have ended. Apart for the same reason.
    pub(crate) ledger: CachePadded<Ledger>,
}

/// A node of a plan.
pub(crate) struct PlanNode {
    pub(crate) name: Arc<str>,
    pub(crate) factory: Factory,
    pub(crate) inputs: Range<usize>,
    pub(crate) outputs: Range<usize>,
    /// By output: the timestamp offset.
    pub(crate) offsets: Box<[Option<i64>]>,
    pub(crate) policy: Policy,
    /// Whether it is called for settled timestamps without packets.
    pub(crate) bounds: bool,
    pub(crate) place: Place,
    /// How many of its calls may go on at once.
    pub(crate) lanes: u16,
    /// Whether what comes behind the head of a queue can make it due.
    pub(crate) batches: bool,
    /// Whether a consumer can notice that one of its outputs comes before another.
    pub(crate) by_stream: bool,
    pub(crate) sides: Box<[SideSource]>,
    pub(crate) side_outputs: Box<[u32]>,
    pub(crate) layer: i32,
    pub(crate) has_events: bool,
    /// The nodes whose outputs it reads, back edges left out: they open first.
    pub(crate) upstream: Box<[u16]>,
}

impl PlanNode {
    /// Whether it makes packets by itself.
    pub(crate) fn is_source(&self) -> bool {
        self.inputs.is_empty() && !self.outputs.is_empty() && !self.has_events
    }
}

/// Where a node runs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Inline,
    /// On an executor of the plan.
    Executor(u16),
}

/// An input of a node.
pub(crate) struct PlanInput {
    pub(crate) node: u16,
    pub(crate) stream: u32,
    pub(crate) back_edge: bool,
    /// The most packets its queue takes before the stream's producer has to wait; `usize::MAX` for
    /// no limit.
    pub(crate) limit: usize,
}

/// A stream: one producer, any number of consumers.
pub(crate) struct PlanStream {
    pub(crate) name: Arc<str>,
    pub(crate) producer: Producer,
    /// Positions in `Plan::inputs`.
    pub(crate) consumers: Box<[u32]>,
    /// The types a packet may have, where the producer's port does not guarantee it; empty if any
    /// is right.
    pub(crate) check: Box<[TypeInfo]>,
}

impl PlanStream {
    /// An error if the stream cannot carry a packet of this type.
    pub(crate) fn check_type(&self, packet: &Packet) -> Result<()> {
        if self.check.is_empty() || self.check.contains(&packet.type_info()) {
            return Ok(());
        }
        let wanted: Vec<String> = self.check.iter().map(|of| format!("`{of}`")).collect();
        Err(Error::invalid(format!(
            "stream `{}` carries {}, but the packet at {} is `{}`",
            self.name,
            wanted.join(" or "),
            packet.time,
            packet.type_info()
        )))
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Producer {
    Node(u16),
    /// Position in `Plan::graph_inputs`.
    Graph(u16),
}

/// A side packet of the graph.
pub(crate) struct PlanSide {
    pub(crate) name: Arc<str>,
    /// A node makes it.
    pub(crate) produced: bool,
    /// It has to be given when a session starts.
    pub(crate) required: bool,
    /// The types it may have; empty if any is right.
    pub(crate) check: Box<[TypeInfo]>,
}

impl PlanSide {
    /// Whether the packet has one of its types.
    pub(crate) fn takes(&self, packet: &Packet) -> bool {
        self.check.is_empty() || self.check.contains(&packet.type_info())
    }
}

/// Where the value of a node's input side packet comes from.
#[derive(Clone)]
pub(crate) enum SideSource {
    /// Position in `Plan::sides`.
    Packet(u32),
    Resource(AnyResource),
    Unloaded,
}

/// A stream at the border of the graph.
#[derive(Clone, Debug)]
pub(crate) struct GraphPort {
    pub(crate) tag: String,
    pub(crate) index: u32,
    pub(crate) name: Arc<str>,
    pub(crate) stream: u32,
    /// The types that its packets can have; empty if any.
    pub(crate) types: Box<[TypeInfo]>,
}

impl GraphPort {
    fn tagged(&self) -> (&str, &str) {
        (&self.tag, &self.name)
    }
}

impl Plan {
    /// The streams that the graph takes in, in order.
    pub fn graph_inputs(&self) -> impl Iterator<Item = &str> {
        self.graph_inputs.iter().map(|port| &*port.name)
    }

    /// The streams that the graph gives out, in order.
    pub fn graph_outputs(&self) -> impl Iterator<Item = &str> {
        self.graph_outputs.iter().map(|port| &*port.name)
    }

    /// The graph's input streams with their tags, which may be empty, in order.
    pub fn tagged_inputs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.graph_inputs.iter().map(GraphPort::tagged)
    }

    /// The graph's output streams with their tags, which may be empty, in order.
    pub fn tagged_outputs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.graph_outputs.iter().map(GraphPort::tagged)
    }

    /// Keeps with the plan what the program that serves it knows of it. What is attached first
    /// stays.
    pub fn attach<T: Any + Send + Sync>(&self, value: T) {
        self.attached.get_or_init(|| Arc::new(value));
    }

    /// What was attached, if it is a `T`.
    pub fn attached<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.attached.get()?.downcast_ref()
    }

    /// The graph's input stream with this tag and index 0.
    pub fn input_with_tag(&self, tag: &str) -> Option<&str> {
        with_tag(&self.graph_inputs, tag)
    }

    /// The graph's output stream with this tag and index 0.
    pub fn output_with_tag(&self, tag: &str) -> Option<&str> {
        with_tag(&self.graph_outputs, tag)
    }

    /// The types that the graph takes on an input stream, empty if any; `None` if it has no such
    /// input.
    pub fn input_types(&self, stream: &str) -> Option<&[TypeInfo]> {
        types_of(&self.graph_inputs, stream)
    }

    /// The types that the graph gives on an output stream, empty if any; `None` if it has no such
    /// output.
    pub fn output_types(&self, stream: &str) -> Option<&[TypeInfo]> {
        types_of(&self.graph_outputs, stream)
    }

    /// The types that a side packet may have, empty if any; `None` if nothing in the graph has it.
    pub fn side_types(&self, name: &str) -> Option<&[TypeInfo]> {
        let side = self.sides.iter().find(|side| &*side.name == name)?;
        Some(&side.check)
    }

    /// The resources of one type that the graph's nodes use, each once.
    pub fn resources<R: Resource>(&self) -> Vec<Arc<R>> {
        let mut found: Vec<Arc<R>> = Vec::new();
        for node in &self.nodes {
            for side in &node.sides {
                let SideSource::Resource(resource) = side else {
                    continue;
                };
                let resource: Arc<dyn Any + Send + Sync> = Arc::clone(resource);
                if let Ok(resource) = resource.downcast::<R>()
                    && !found.iter().any(|other| Arc::ptr_eq(other, &resource))
                {
                    found.push(resource);
                }
            }
        }
        found
    }

    /// How many sessions of the plan exist now.
    pub fn open_sessions(&self) -> usize {
        self.open_sessions.load(Ordering::Relaxed)
    }

    /// What its sessions did that have ended.
    pub fn totals(&self) -> Totals {
        self.ledger.read()
    }

    /// Returns true if a run with one packet of each input gives at most one of each output: the
    /// outputs of all nodes have the timestamps that follow from their inputs, in no loop, and no
    /// node makes packets by itself.
    pub fn answers_once(&self) -> bool {
        let is_tied = |node: &PlanNode| node.offsets.iter().all(Option::is_some);
        self.sources.is_empty()
            && self.nodes.iter().all(is_tied)
            && !self.inputs.iter().any(|input| input.back_edge)
    }

    /// The names of its nodes, in the order in which packets pass them.
    pub fn node_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.nodes.iter().map(|node| &*node.name)
    }

    /// The names of its streams.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = &str> {
        self.streams.iter().map(|stream| &*stream.name)
    }

    /// The inputs of its nodes, each with the stream that it reads.
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

    /// How many jobs of its sessions wait for an executor.
    pub fn jobs_waiting(&self) -> usize {
        self.executors.iter().map(Lane::waiting).sum()
    }

    /// How many sessions were refused because too many jobs waited for an executor.
    pub fn sessions_refused(&self) -> u64 {
        self.executors.iter().map(Lane::refused).sum()
    }

    /// The expanded graph with everything the plan resolved, for people and tools.
    pub fn explain(&self) -> &Explain {
        &self.explain
    }

    pub(crate) fn stream(&self, name: &str) -> Option<u32> {
        let found = self
            .streams
            .iter()
            .position(|stream| &*stream.name == name)?;
        Some(found as u32)
    }

    /// The stream of this name, or an error that it does not exist.
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

/// An input of a node, with the stream that it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The position of the stream among [`Plan::streams`].
    pub stream: usize,
    /// The position of the node among [`Plan::node_names`].
    pub node: usize,
    /// The tag and index of the input: `TAG:0`, and `:0` without a tag.
    pub port: String,
    /// How many packets its queue takes at first; none where nothing limits it.
    pub bound: Option<usize>,
}

fn types_of<'a>(ports: &'a [GraphPort], stream: &str) -> Option<&'a [TypeInfo]> {
    let port = ports.iter().find(|port| &*port.name == stream)?;
    Some(&port.types)
}

fn with_tag<'a>(ports: &'a [GraphPort], tag: &str) -> Option<&'a str> {
    let port = ports
        .iter()
        .find(|port| port.tag == tag && port.index == 0)?;
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
