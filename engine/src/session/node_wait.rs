//! The wait of one node: its reason, and the node that causes it.

use crate::{
    calculator::ANY_EVENT,
    plan::{NodePlace, Producer, SideSource},
    policy::{Readiness, Waiting},
    timestamp::Timestamp,
};

use super::{away::Away, node::Status, wait_graph::WaitGraph, why::Reason};

/// The reason of a wait and the node that causes it; `None` at the root of a chain.
pub(super) struct WaitsFor {
    pub(super) reason: Reason,
    pub(super) next: Option<usize>,
    /// The input that the node waits for.
    pub(super) input: Option<usize>,
    /// The side packet that the node waits for.
    pub(super) side: Option<usize>,
}

impl WaitsFor {
    fn root(reason: Reason) -> Self {
        Self {
            reason,
            next: None,
            input: None,
            side: None,
        }
    }

    fn by(reason: Reason, node: usize) -> Self {
        Self {
            next: Some(node),
            ..Self::root(reason)
        }
    }
}

/// The question about a node's wait.
#[derive(Copy, Clone)]
pub(super) enum WaitQuery {
    /// The wait of this node alone.
    Itself,
    /// The wait of the packets in its queues, whatever holds the node.
    Packets,
    /// The wait that delays this stream. Another node needs it, and has a packet at this timestamp,
    /// if any.
    Stream(usize, Option<Timestamp>),
    /// The wait that delays this side packet, which another node needs.
    Side(usize),
}

impl WaitGraph<'_> {
    /// Finds the wait of a node.
    pub(super) fn find(self, node: usize, asked: WaitQuery) -> WaitsFor {
        let state = &self.running.nodes[node];
        match state.status {
            Status::Unopened => self.unopened(node),
            Status::Open | Status::Busy if state.is_away() => {
                WaitsFor::root(match self.plan.nodes[node].place {
                    NodePlace::Inline => Reason::Future {
                        what: state.away.as_deref().and_then(Away::waits_for),
                    },
                    NodePlace::Executor(executor) => {
                        let job = state.away.as_deref().and_then(Away::job);
                        let lane = &self.plan.executors[usize::from(executor)];
                        Reason::Executor {
                            runs: self.plan.explain.nodes[node].runs.clone(),
                            before: job.and_then(|job| lane.before(job)),
                        }
                    }
                })
            }
            Status::Open if !state.has_room() && self.would_run(node) => self.full(node),
            Status::Open if self.plan.nodes[node].is_source() => self.source(node),
            Status::Open => self.open(node, asked),
            Status::Busy => WaitsFor::root(Reason::Turn),
            Status::Closed => WaitsFor::root(match asked {
                WaitQuery::Side(side) => Reason::NeverSet {
                    side_packet: self.plan.sides[side].name.to_string(),
                },
                WaitQuery::Itself | WaitQuery::Packets | WaitQuery::Stream(..) => Reason::End,
            }),
        }
    }

    fn unopened(self, node: usize) -> WaitsFor {
        for source in &self.plan.nodes[node].sides {
            let mut makers = self.plan.nodes.iter();
            if let SideSource::Packet(side) = source
                && self.running.sides.get(*side as usize).is_none()
                && let Some(maker) = makers.position(|other| other.side_outputs.contains(side))
            {
                let reason = Reason::SidePacket {
                    side_packet: self.plan.sides[*side as usize].name.to_string(),
                    from: self.name(maker),
                };
                return WaitsFor {
                    side: Some(*side as usize),
                    ..WaitsFor::by(reason, maker)
                };
            }
        }
        let before = self.plan.nodes[node].upstream.iter();
        let mut before = before.map(|&before| usize::from(before));
        match before.find(|&before| self.running.nodes[before].status == Status::Unopened) {
            Some(before) => {
                let of = self.name(before);
                WaitsFor::by(Reason::Opening { of }, before)
            }
            None => WaitsFor::root(Reason::Turn),
        }
    }

    /// Finds the wait of a node that only full queues keep from running.
    fn full(self, node: usize) -> WaitsFor {
        for &stream in &self.plan.outputs[self.plan.nodes[node].outputs.clone()] {
            let consumers = self.plan.streams[stream as usize].consumers.iter();
            let mut inputs = consumers.map(|&input| input as usize);
            if let Some(input) = inputs.find(|&input| self.running.queues.is_full(input)) {
                let at = usize::from(self.plan.inputs[input].node);
                let reason = Reason::Room {
                    stream: self.stream(stream),
                    at: self.name(at),
                    queued: self.running.queues[input].len(),
                };
                return WaitsFor::by(reason, at);
            }
            if let Some(unread) = self.running.taps.unread(stream) {
                return WaitsFor::root(Reason::Reader {
                    stream: self.stream(stream),
                    unread,
                });
            }
        }
        WaitsFor::root(Reason::Turn)
    }

    /// Finds the wait of a source whose queues have room.
    fn source(self, node: usize) -> WaitsFor {
        let layer = self.plan.nodes[node].layer;
        match self.running.lower_source(self.plan, layer) {
            Some(lower) => {
                let source = self.name(lower);
                WaitsFor::by(Reason::Layer { layer, source }, lower)
            }
            None => WaitsFor::root(Reason::Turn),
        }
    }

    fn open(self, node: usize, asked: WaitQuery) -> WaitsFor {
        let plan = &self.plan.nodes[node];
        let outside = self.outside(node).map(WaitsFor::root);
        if plan.inputs.is_empty() {
            return outside.unwrap_or_else(|| WaitsFor::root(Reason::End));
        }
        let waiting = match self.readiness(node) {
            Readiness::Waiting(waiting) => waiting,
            Readiness::Close if self.running.nodes[node].is_held() => {
                return outside.unwrap_or_else(|| WaitsFor::root(any_event()));
            }
            Readiness::Close | Readiness::Process(_) => return WaitsFor::root(Reason::Turn),
        };
        if let Some(outside) = outside
            && !matches!(asked, WaitQuery::Packets)
        {
            return outside;
        }
        // The consumer waits for timestamps that this node's inputs have passed.
        if let WaitQuery::Stream(stream, Some(needed)) = asked
            && waiting.until > needed
            && !self.follows_inputs(node, stream)
        {
            return WaitsFor::root(Reason::Nothing {
                stream: self.stream(stream as u32),
                bound: self.running.streams[stream].bound,
                dealt: waiting.until,
            });
        }
        let waiting = self.forward(node).unwrap_or(waiting);
        let input = plan.inputs.start + usize::from(waiting.stream);
        let stream = self.plan.inputs[input].stream;
        if self.running.queues[input].holds_paused() {
            let stream = self.stream(stream);
            return WaitsFor::root(Reason::Paused { stream });
        }
        let bound = self.running.queues[input].bound();
        let producer = match self.plan.streams[stream as usize].producer {
            Producer::Node(producer) => Some(usize::from(producer)),
            Producer::Graph(_) => None,
        };
        WaitsFor {
            reason: Reason::Stream {
                stream: self.stream(stream),
                from: producer.map(|producer| self.name(producer)),
                bound,
            },
            next: producer,
            input: Some(input),
            side: None,
        }
    }

    /// Returns the wait of a held node for an outside event; `None` if only its inputs can make it
    /// continue.
    pub(super) fn outside(self, node: usize) -> Option<Reason> {
        let state = &self.running.nodes[node];
        let what = state.is_held().then(|| state.waits_for())??;
        Some(Reason::Event { what })
    }

    /// Returns the wait for the input that is furthest behind, among inputs that can lead to a
    /// call. Paused inputs and back edges do not count: a loop continues only after a packet has
    /// entered it.
    fn forward(self, node: usize) -> Option<Waiting> {
        let first = self.plan.nodes[node].inputs.start;
        let waits = self.running.nodes[node].intake.waits_for(self.queues(node));
        let is_inward = |waiting: &Waiting| {
            let input = first + usize::from(waiting.stream);
            !self.plan.inputs[input].back_edge && !self.running.queues[input].holds_paused()
        };
        let inward = waits.into_iter().filter(is_inward);
        inward.min_by_key(|waiting| waiting.until)
    }

    /// Returns `true` if the bound of an output of a node moves with those of its inputs.
    fn follows_inputs(self, node: usize, stream: usize) -> bool {
        let plan = &self.plan.nodes[node];
        let outputs = &self.plan.outputs[plan.outputs.clone()];
        let output = outputs.iter().position(|&output| output as usize == stream);
        output.is_some_and(|output| plan.offsets[output].is_some())
    }

    fn readiness(self, node: usize) -> Readiness {
        self.running.nodes[node].intake.readiness(self.queues(node))
    }

    /// Returns `true` if at most full queues keep a node from being called.
    pub(super) fn would_run(self, node: usize) -> bool {
        self.running.nodes[node].would_run(&self.plan.nodes[node], self.queues(node))
    }
}

/// Returns the wait of a held node that does not describe it.
fn any_event() -> Reason {
    Reason::Event {
        what: ANY_EVENT.to_owned(),
    }
}
