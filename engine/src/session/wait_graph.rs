//! From a wait to its root cause: what each node waits for, down to what blocks it.

use std::time::Duration;

use crate::{
    calculator::ANY_EVENT,
    input::InputQueue,
    plan::{Place, Plan, Producer, SideSource},
    policy::{Readiness, Waiting},
    timestamp::Timestamp,
};

use super::{
    node::Status,
    running::Running,
    why::{OpenInput, Reason, Wait, Why},
};

impl Running {
    /// What the session waits for.
    pub(super) fn why(&self, plan: &Plan) -> Why {
        if self.nodes.len() < plan.nodes.len() {
            return Why::ended();
        }
        let waits = WaitGraph {
            plan,
            running: self,
        };
        let open = plan.graph_inputs.iter().filter_map(|port| {
            let stream = &self.streams[port.stream as usize];
            (!stream.is_closed()).then(|| OpenInput {
                stream: port.name.to_string(),
                bound: stream.bound(),
            })
        });
        Why {
            ended: false,
            chains: waits.chains(),
            nodes: waits.nodes(),
            open_inputs: open.collect(),
        }
    }
}

/// A look at a session that does not move meanwhile.
#[derive(Copy, Clone)]
struct WaitGraph<'a> {
    plan: &'a Plan,
    running: &'a Running,
}

/// What a node waits for, and the node that this is up to; none for a root.
struct WaitsFor {
    reason: Reason,
    next: Option<usize>,
    /// The input that it waits for.
    input: Option<usize>,
    /// The side packet that it waits for.
    side: Option<usize>,
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

/// Why a node is asked what it waits for.
#[derive(Copy, Clone)]
enum Asked {
    /// For a look at this node alone.
    Itself,
    /// For a look at the packets in its queues, whatever holds the node.
    Packets,
    /// Another node has a packet at this timestamp, if any, and waits for this stream.
    Stream(usize, Option<Timestamp>),
    /// Another node waits for this side packet.
    Side(usize),
}

impl WaitGraph<'_> {
    /// Every node that is not closed.
    fn nodes(self) -> Vec<Wait> {
        let open = (0..self.plan.nodes.len())
            .filter(|&node| self.running.nodes[node].status() != Status::Closed);
        open.map(|node| self.wait(node, self.find(node, Asked::Itself).reason))
            .collect()
    }

    /// The chains from nodes that are held up to the roots, each root once.
    fn chains(self) -> Vec<Vec<Wait>> {
        let mut chains: Vec<Vec<Wait>> = Vec::new();
        let all = 0..self.plan.nodes.len();
        // What has work goes first; what is away on a call matters by itself only if nobody waits
        // for it.
        let mut starts = Vec::new();
        for node in all.clone().filter(|&node| self.is_held_up(node)) {
            starts.push((node, Asked::Itself));
            if self.first(node).is_some() && self.outside(node).is_some() {
                starts.push((node, Asked::Packets));
            }
        }
        starts.extend(
            all.filter(|&node| self.is_away(node))
                .map(|node| (node, Asked::Itself)),
        );
        for (start, asked) in starts {
            let name = self.name(start);
            let mut seen = chains.iter().flatten();
            if matches!(asked, Asked::Itself)
                && self.is_away(start)
                && seen.any(|wait| wait.node == name)
            {
                continue;
            }
            let chain = self.chain(start, asked);
            let known = |other: &Vec<Wait>| matches!((other.last(), chain.last()), (Some(one), Some(other)) if same_root(one, other));
            if !chains.iter().any(known) {
                chains.push(chain);
            }
        }
        chains
    }

    /// Whether a node has something to do that it cannot do.
    fn is_held_up(self, node: usize) -> bool {
        let (plan, state) = (&self.plan.nodes[node], &self.running.nodes[node]);
        match state.status() {
            Status::Unopened => true,
            Status::Open if !state.has_room() => self.would_run(node),
            Status::Open => plan.is_source() || self.first(node).is_some(),
            Status::Busy | Status::Closed => false,
        }
    }

    fn is_away(self, node: usize) -> bool {
        let state = &self.running.nodes[node];
        state.is_away() || (state.status() == Status::Open && state.is_held())
    }

    fn chain(self, start: usize, mut asked: Asked) -> Vec<Wait> {
        let mut chain = Vec::new();
        let mut path: Vec<(usize, Option<usize>)> = Vec::new();
        let mut node = start;
        loop {
            if let Some(at) = path.iter().position(|(seen, _)| *seen == node) {
                // What comes from outside gets into the loop, too, if there is room for it.
                let has_room = self.running.nodes[node].has_room();
                let outside = has_room.then(|| self.outside(node)).flatten();
                let reason = outside.unwrap_or_else(|| self.around(&path[at..]));
                chain.push(self.wait(node, reason));
                return chain;
            }
            let found = self.find(node, asked);
            chain.push(self.wait(node, found.reason));
            path.push((node, found.input));
            let Some(next) = found.next else {
                return chain;
            };
            asked = match (found.input, found.side) {
                (Some(input), _) => {
                    let stream = self.plan.inputs[input].stream as usize;
                    // What one node waits for without a packet of its own is what the one before it
                    // waits for.
                    let passed_on = match asked {
                        Asked::Stream(_, needed) => needed,
                        Asked::Itself | Asked::Packets | Asked::Side(_) => None,
                    };
                    Asked::Stream(stream, self.first(node).or(passed_on))
                }
                (None, Some(side)) => Asked::Side(side),
                (None, None) => Asked::Itself,
            };
            node = next;
        }
    }

    /// The reason of a node that waits for itself.
    fn around(self, path: &[(usize, Option<usize>)]) -> Reason {
        let behind = path.iter().filter(|(node, _)| self.first(*node).is_some());
        let mut behind = behind.filter_map(|(_, input)| Some(&self.plan.inputs[(*input)?]));
        let closing = behind.find(|input| input.back_edge);
        Reason::Itself {
            nodes: path.iter().map(|(node, _)| self.name(*node)).collect(),
            back_edge: closing.map(|input| self.stream(input.stream)),
        }
    }

    fn wait(self, node: usize, reason: Reason) -> Wait {
        let state = &self.running.nodes[node];
        let since: Option<Duration> = state.since().map(|since| since.elapsed());
        let queues = self.running.queues.of(&self.plan.nodes[node].inputs);
        Wait {
            node: self.name(node),
            packets: queues.iter().map(InputQueue::len).sum(),
            first: self.first(node),
            since,
            reason,
        }
    }

    fn name(self, node: usize) -> String {
        self.plan.nodes[node].name.to_string()
    }

    fn stream(self, stream: u32) -> String {
        self.plan.streams[stream as usize].name.to_string()
    }

    /// The timestamp of the first packet in a node's queues.
    fn first(self, node: usize) -> Option<Timestamp> {
        let queues = self.running.queues.of(&self.plan.nodes[node].inputs);
        let first = |queue: &InputQueue| queue.times().next();
        queues.iter().filter_map(first).min()
    }

    fn readiness(self, node: usize) -> Readiness {
        let inputs = &self.plan.nodes[node].inputs;
        self.running.nodes[node]
            .intake
            .readiness(self.running.queues.of(inputs))
    }

    /// Whether a node would be called if there were room for what it makes.
    fn would_run(self, node: usize) -> bool {
        let plan = &self.plan.nodes[node];
        self.running.nodes[node].would_run(plan, self.running.queues.of(&plan.inputs))
    }

    /// What a node waits for.
    fn find(self, node: usize, asked: Asked) -> WaitsFor {
        let state = &self.running.nodes[node];
        match state.status() {
            Status::Unopened => self.unopened(node),
            Status::Open | Status::Busy if state.is_away() => {
                WaitsFor::root(match self.plan.nodes[node].place {
                    Place::Inline => Reason::Future {
                        what: state.call_waits_for(),
                    },
                    Place::Executor(executor) => Reason::Executor {
                        runs: self.plan.explain.nodes[node].runs.clone(),
                        before: state
                            .job()
                            .and_then(|job| self.plan.executors[usize::from(executor)].before(job)),
                    },
                })
            }
            Status::Open if !state.has_room() && self.would_run(node) => self.full(node),
            Status::Open if self.plan.nodes[node].is_source() => self.source(node),
            Status::Open => self.open(node, asked),
            Status::Busy => WaitsFor::root(Reason::Turn),
            Status::Closed => WaitsFor::root(match asked {
                Asked::Side(side) => Reason::NeverSet {
                    side_packet: self.plan.sides[side].name.to_string(),
                },
                Asked::Itself | Asked::Packets | Asked::Stream(..) => Reason::End,
            }),
        }
    }

    fn unopened(self, node: usize) -> WaitsFor {
        for source in &self.plan.nodes[node].sides {
            let SideSource::Packet(side) = source else {
                continue;
            };
            if self.running.sides.get(*side as usize).is_some() {
                continue;
            }
            let mut makers = self.plan.nodes.iter();
            let Some(maker) = makers.position(|other| other.side_outputs.contains(side)) else {
                continue;
            };
            let reason = Reason::SidePacket {
                side_packet: self.plan.sides[*side as usize].name.to_string(),
                from: self.name(maker),
            };
            return WaitsFor {
                side: Some(*side as usize),
                ..WaitsFor::by(reason, maker)
            };
        }
        let mut before = self.plan.nodes[node].upstream.iter();
        let unopened = before
            .find(|&&before| self.running.nodes[usize::from(before)].status() == Status::Unopened);
        match unopened {
            Some(&before) => {
                let of = self.name(usize::from(before));
                WaitsFor::by(Reason::Opening { of }, usize::from(before))
            }
            None => WaitsFor::root(Reason::Turn),
        }
    }

    /// A node that would run if there were room.
    fn full(self, node: usize) -> WaitsFor {
        for &stream in &self.plan.outputs[self.plan.nodes[node].outputs.clone()] {
            for &input in &self.plan.streams[stream as usize].consumers {
                if !self.running.queues.is_full(input as usize) {
                    continue;
                }
                let at = usize::from(self.plan.inputs[input as usize].node);
                return WaitsFor::by(
                    Reason::Room {
                        stream: self.stream(stream),
                        at: self.name(at),
                        queued: self.running.queues[input as usize].len(),
                    },
                    at,
                );
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

    /// A source that has room.
    fn source(self, node: usize) -> WaitsFor {
        let layer = self.plan.nodes[node].layer;
        let lower = self
            .plan
            .sources
            .iter()
            .map(|&source| usize::from(source))
            .find(|&source| {
                self.plan.nodes[source].layer < layer
                    && self.running.nodes[source].status() != Status::Closed
            });
        match lower {
            Some(lower) => WaitsFor::by(
                Reason::Layer {
                    layer,
                    source: self.name(lower),
                },
                lower,
            ),
            None => WaitsFor::root(Reason::Turn),
        }
    }

    fn open(self, node: usize, asked: Asked) -> WaitsFor {
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
            && !matches!(asked, Asked::Packets)
        {
            return outside;
        }
        // Its consumer waits for something that its inputs are already past.
        if let Asked::Stream(stream, Some(needed)) = asked
            && waiting.until > needed
            && !self.follows_inputs(node, stream)
        {
            return WaitsFor::root(Reason::Nothing {
                stream: self.stream(stream as u32),
                bound: self.running.streams[stream].bound(),
                dealt: waiting.until,
            });
        }
        let waiting = self.forward(node).unwrap_or(waiting);
        let input = plan.inputs.start + usize::from(waiting.stream);
        let stream = self.plan.inputs[input].stream;
        if self.running.queues[input].holds_paused() {
            return WaitsFor::root(Reason::Paused {
                stream: self.stream(stream),
            });
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

    /// Returns the wait of a held node for something outside of the graph, unless only its inputs
    /// can bring it on.
    fn outside(self, node: usize) -> Option<Reason> {
        let state = &self.running.nodes[node];
        let what = state.is_held().then(|| state.waits_for())??;
        Some(Reason::Event { what })
    }

    /// Of the inputs each of which can bring about a call of a node, the one that is furthest
    /// behind, not paused, and no back edge: a loop goes on only once something has got into it.
    fn forward(self, node: usize) -> Option<Waiting> {
        let inputs = self.plan.nodes[node].inputs.clone();
        let queues = self.running.queues.of(&inputs);
        let waits = self.running.nodes[node].intake.waits_for(queues);
        let is_inward = |waiting: &Waiting| {
            let input = inputs.start + usize::from(waiting.stream);
            !self.plan.inputs[input].back_edge && !self.running.queues[input].holds_paused()
        };
        let inward = waits.into_iter().filter(is_inward);
        inward.min_by_key(|waiting| waiting.until)
    }

    /// Whether the bound of an output of a node moves with those of its inputs.
    fn follows_inputs(self, node: usize, stream: usize) -> bool {
        let plan = &self.plan.nodes[node];
        let outputs = &self.plan.outputs[plan.outputs.clone()];
        let output = outputs.iter().position(|&output| output as usize == stream);
        output.is_some_and(|output| plan.offsets[output].is_some())
    }
}

/// Returns the wait of a held node that says no more about it.
fn any_event() -> Reason {
    Reason::Event {
        what: ANY_EVENT.to_owned(),
    }
}

/// Whether two chains end alike. Around a loop, each may begin somewhere else.
fn same_root(one: &Wait, other: &Wait) -> bool {
    match (&one.reason, &other.reason) {
        (Reason::Itself { nodes: one, .. }, Reason::Itself { nodes: other, .. }) => {
            one.len() == other.len() && one.iter().all(|node| other.contains(node))
        }
        (one_reason, other_reason) => one.node == other.node && one_reason == other_reason,
    }
}
