//! The inside of a session: plain data, reached by index.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use crate::{
    emits::Emits,
    error::{Error, Result},
    input::{Event, InputQueue, InputSet},
    node::{self, Instance},
    packet::Packet,
    plan::{Plan, Producer},
    policy::{Policy, Rule},
    timestamp::Timestamp,
};

use super::{
    in_flight::Away,
    intake::Intake,
    output::OutputStream,
    ready::ReadySet,
    shared::{Message, Shared, State},
    summary::Summary,
    timer::Timer,
    why,
};

/// What all of a session's work needs to see and never changes.
#[derive(Copy, Clone)]
pub(super) struct Frame<'a> {
    pub(super) plan: &'a Arc<Plan>,
    pub(super) shared: &'a Arc<Shared>,
}

/// Where a node is in its life.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Waits for its side packets or for the nodes before it.
    Unopened,
    Open,
    /// In as many calls that go on elsewhere as it may be.
    Busy,
    Closed,
}

pub(super) type NodeFuture = Pin<Box<dyn Future<Output = node::Returned> + Send>>;
pub(super) type Observer = Box<dyn FnMut(Timestamp, Option<&Packet>) -> Result<()> + Send>;

pub(super) struct NodeState {
    pub(super) status: Status,
    /// Present while the node is open and not away on a call.
    pub(super) instance: Option<Instance>,
    pub(super) policy: Rule,
    pub(super) intake: Intake,
    pub(super) timed: bool,
    /// The one input, counted within the node, that has to change before the node is due; [`ANY`] if it is not known.
    pub(super) laggard: u16,
    pub(super) set: InputSet,
    pub(super) events: VecDeque<Event>,
    /// Holds that exist. May be below zero for a moment: a hold that a call on an executor made and dropped is reported
    /// before the call's end is.
    pub(super) holds: i32,
    /// How many queues that it feeds are full; while there is one, it does not run.
    pub(super) full_edges: u16,
    /// Calls that go on elsewhere; present since the first.
    pub(super) away: Option<Box<Away>>,
    pub(super) runs: u64,
    pub(super) time: Duration,
    /// When its last call ended, or the poll in which it did began.
    pub(super) since: Option<Instant>,
}

/// Of a node that may be due after a change of any of its inputs.
pub(super) const ANY: u16 = u16::MAX;

impl NodeState {
    /// Whether calls of the node go on elsewhere.
    pub(super) fn is_away(&self) -> bool {
        self.away.as_ref().is_some_and(|away| away.any())
    }
}

/// The limit of one queue.
pub(super) struct Limit {
    pub(super) limit: usize,
    pub(super) full: bool,
}

/// The producing end of a stream.
pub(super) struct StreamState {
    /// The smallest timestamp that may still be emitted.
    pub(super) bound: Timestamp,
    pub(super) closed: bool,
    /// Somebody outside looks at it: an output or an observer.
    pub(super) tapped: bool,
}

/// Somebody outside who gets the packets of a stream.
pub(super) struct Tap {
    pub(super) stream: u32,
    /// The last timestamp it was told of.
    pub(super) last: Timestamp,
    /// It has got a packet.
    pub(super) begun: bool,
    pub(super) to: TapTo,
}

pub(super) enum TapTo {
    Observer {
        bounds: bool,
        observer: Observer,
    },
    /// A queue whose other half is in [`Shared`]: `index` among its outputs, packets not handed over yet, and how many the
    /// reader has left.
    Output {
        index: usize,
        local: Vec<Packet>,
        unread: usize,
        full: bool,
        abandoned: bool,
    },
}

pub(super) struct Running {
    pub(super) nodes: Vec<NodeState>,
    /// The queues of all inputs, as in the plan.
    pub(super) queues: Vec<InputQueue>,
    pub(super) limits: Vec<Limit>,
    pub(super) full_queues: usize,
    pub(super) streams: Vec<StreamState>,
    pub(super) sides: Vec<Option<Packet>>,
    pub(super) taps: Vec<Tap>,
    pub(super) ready: ReadySet,
    /// What inline calls put out; used again and again.
    pub(super) emits: Emits,
    pub(super) inbox: VecDeque<Message>,
    pub(super) started: Option<Instant>,
    pub(super) timer: Timer,
    pub(super) unopened: usize,
    /// A node has set a side packet that others may wait for.
    pub(super) sides_changed: bool,
    pub(super) busy: usize,
    /// Who wants to know when there is nothing to do.
    pub(super) idle_waiters: Vec<oneshot::Sender<()>>,
    pub(super) open_inputs: usize,
    /// A node has stopped the graph: sources are closed instead of called.
    pub(super) stopping: bool,
    pub(super) failed: Option<Error>,
    /// It has been let in on an executor.
    pub(super) offloads: bool,
}

impl Running {
    pub(super) fn new(plan: &Plan, sides: Vec<Option<Packet>>) -> Self {
        let node = |node: &crate::plan::PlanNode| {
            let policy = node.policy.build(node.inputs.len(), node.bounds);
            NodeState {
                status: Status::Unopened,
                instance: None,
                timed: policy.timed(),
                intake: match node.policy {
                    Policy::Immediate => Intake::Later,
                    _ => Intake::OnCall,
                },
                policy,
                laggard: ANY,
                set: InputSet::new(node.inputs.len()),
                events: VecDeque::new(),
                holds: 0,
                full_edges: 0,
                away: None,
                runs: 0,
                time: Duration::ZERO,
                since: None,
            }
        };
        let stream = || StreamState {
            bound: Timestamp::PRE_STREAM,
            closed: false,
            tapped: false,
        };
        let limit = |input: &crate::plan::PlanInput| Limit {
            limit: input.limit,
            full: false,
        };
        Self {
            nodes: plan.nodes.iter().map(node).collect(),
            queues: plan.inputs.iter().map(|_| InputQueue::default()).collect(),
            limits: plan.inputs.iter().map(limit).collect(),
            full_queues: 0,
            streams: plan.streams.iter().map(|_| stream()).collect(),
            sides,
            taps: Vec::new(),
            ready: ReadySet::new(plan.nodes.len()),
            emits: Emits::default(),
            inbox: VecDeque::new(),
            started: None,
            timer: Timer::start(),
            unopened: plan.nodes.len(),
            sides_changed: false,
            busy: 0,
            idle_waiters: Vec::new(),
            open_inputs: plan.graph_inputs.len(),
            stopping: false,
            failed: None,
            offloads: false,
        }
    }

    /// Sets the limits of the queues of a stream.
    pub(super) fn limit(&mut self, plan: &Plan, stream: u32, limit: usize) {
        for &input in &plan.streams[stream as usize].consumers {
            self.limits[input as usize].limit = limit;
        }
    }

    pub(super) fn observe(&mut self, stream: u32, bounds: bool, observer: Observer) {
        self.tap(stream, TapTo::Observer { bounds, observer });
    }

    fn tap(&mut self, stream: u32, to: TapTo) {
        self.streams[stream as usize].tapped = true;
        self.taps.push(Tap {
            stream,
            last: Timestamp::UNSTARTED,
            begun: false,
            to,
        });
    }

    /// The beginning of a poll; of the first one, the start of the session.
    pub(super) fn begin(&mut self, frame: Frame<'_>) {
        self.timer = Timer::start();
        if self.started.is_some() {
            return;
        }
        self.started = Some(self.timer.read());
        let taken: Vec<u32> = {
            let mut state = frame.shared.lock();
            state.started = true;
            state.outputs.to_vec()
        };
        for (index, stream) in taken.into_iter().enumerate() {
            let output = TapTo::Output {
                index,
                local: Vec::new(),
                unread: 0,
                full: false,
                abandoned: false,
            };
            self.tap(stream, output);
        }
        self.open_nodes(frame);
    }

    /// Takes in what the outside has sent.
    pub(super) fn receive(&mut self, frame: Frame<'_>) {
        let mut inbox = std::mem::take(&mut self.inbox);
        {
            let mut state = frame.shared.lock();
            state.exchange.receive(&mut inbox);
            self.look_at_readers(frame, &state);
        }
        for message in inbox.drain(..) {
            if let Err(error) = self.handle(frame, message) {
                self.failed.get_or_insert(error);
            }
        }
        self.inbox = inbox;
    }

    fn handle(&mut self, frame: Frame<'_>, message: Message) -> Result<()> {
        match message {
            Message::Packet { input, packet } => {
                let stream = frame.plan.graph_inputs[usize::from(input)].stream as usize;
                if self.streams[stream].closed && !self.has_takers(frame, stream) {
                    return frame.plan.streams[stream].check_type(&packet);
                }
                self.put(frame, stream, packet)
            }
            Message::Bound { input, at } => {
                let stream = frame.plan.graph_inputs[usize::from(input)].stream as usize;
                self.bound(frame, stream, at)
            }
            Message::CloseInput { input } => {
                self.open_inputs -= 1;
                let stream = frame.plan.graph_inputs[usize::from(input)].stream;
                self.close_stream(frame, stream as usize)
            }
            Message::StopSources => {
                self.stop_sources(frame);
                Ok(())
            }
            Message::Event { node, event } => {
                let state = &mut self.nodes[usize::from(node)];
                if state.status != Status::Closed {
                    state.events.push_back(event);
                    self.ready.insert(node);
                }
                Ok(())
            }
            Message::Released { node } => {
                self.nodes[usize::from(node)].holds -= 1;
                self.ready.insert(node);
                Ok(())
            }
            Message::Poll { node, slot } => {
                self.poll_future(frame, usize::from(node), slot);
                Ok(())
            }
            Message::Returned { node, returned } => {
                self.returned(frame, usize::from(node), *returned);
                Ok(())
            }
            Message::Why(answer) => {
                // Who asked may have given up since.
                drop(answer.send(why::why(frame.plan, self)));
                Ok(())
            }
            Message::Idle(answer) => {
                self.idle_waiters.push(answer);
                Ok(())
            }
        }
    }

    /// Notes how far the readers of the outputs have come, and lets writers go on.
    fn look_at_readers(&mut self, frame: Frame<'_>, state: &State) {
        for at in 0..self.taps.len() {
            let tap = &mut self.taps[at];
            let TapTo::Output {
                index,
                unread,
                abandoned,
                ..
            } = &mut tap.to
            else {
                continue;
            };
            let waiting = state.exchange.unread(*index);
            *unread = waiting.unwrap_or(0);
            *abandoned = waiting.is_none();
            self.refresh_tap(frame, at);
        }
    }

    /// Notes whether an output is full.
    pub(super) fn refresh_tap(&mut self, frame: Frame<'_>, at: usize) {
        let tap = &mut self.taps[at];
        let TapTo::Output {
            local,
            unread,
            full,
            abandoned,
            ..
        } = &mut tap.to
        else {
            return;
        };
        let now_full = !*abandoned && *unread + local.len() >= OutputStream::CAPACITY;
        let was_full = std::mem::replace(full, now_full);
        let producer = frame.plan.streams[tap.stream as usize].producer;
        self.edge_changed(producer, was_full, now_full);
    }

    /// Notes whether a queue is full.
    pub(super) fn refresh(&mut self, frame: Frame<'_>, input: usize) {
        let limit = &mut self.limits[input];
        let plan_input = &frame.plan.inputs[input];
        let now_full = !plan_input.back_edge && self.queues[input].len() >= limit.limit;
        let was_full = std::mem::replace(&mut limit.full, now_full);
        self.full_queues = self.full_queues + usize::from(now_full) - usize::from(was_full);
        let producer = frame.plan.streams[plan_input.stream as usize].producer;
        self.edge_changed(producer, was_full, now_full);
    }

    fn edge_changed(&mut self, producer: Producer, was_full: bool, now_full: bool) {
        let Producer::Node(node) = producer else {
            return;
        };
        let edges = &mut self.nodes[usize::from(node)].full_edges;
        match (was_full, now_full) {
            (false, true) => *edges += 1,
            (true, false) => {
                *edges -= 1;
                self.ready.insert(node);
            }
            _ => {}
        }
    }

    /// Hands over packets, opens gates and, if `sleep` is given, goes to sleep. False if there is more to do instead.
    pub(super) fn publish(&mut self, frame: Frame<'_>, sleep: Option<&Context<'_>>) -> bool {
        let rooms: smallvec::SmallVec<[usize; 2]> = frame
            .plan
            .graph_inputs
            .iter()
            .map(|port| self.room(frame, port.stream as usize))
            .collect();
        let mut wakers: Vec<Waker> = Vec::new();
        let mut state = frame.shared.lock();
        self.hand_over(&mut state, &mut wakers);
        for (gate, room) in rooms.into_iter().enumerate() {
            state.exchange.open(gate, room, &mut wakers);
        }
        let full = self.taps.iter().filter_map(|tap| match tap.to {
            TapTo::Output {
                index, full: true, ..
            } => Some(index),
            TapTo::Output { .. } | TapTo::Observer { .. } => None,
        });
        let asleep = sleep.is_some_and(|cx| state.exchange.sleep(full, cx));
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        asleep
    }

    /// Tells those who wait for it that the session has nothing to do, if no call is under way elsewhere.
    pub(super) fn tell_idle(&mut self) {
        if self.busy == 0 {
            // Who asked may have given up since.
            self.idle_waiters
                .drain(..)
                .for_each(|waiter| _ = waiter.send(()));
        }
    }

    /// Hands over what is left, at the end.
    pub(super) fn flush(&mut self, shared: &Shared) {
        let mut wakers = Vec::new();
        let mut state = shared.lock();
        self.hand_over(&mut state, &mut wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn hand_over(&mut self, state: &mut State, wakers: &mut Vec<Waker>) {
        for tap in &mut self.taps {
            let TapTo::Output {
                index,
                local,
                unread,
                ..
            } = &mut tap.to
            else {
                continue;
            };
            let closed = self.streams[tap.stream as usize].closed;
            state.exchange.hand_over(*index, local, closed, wakers);
            *unread = state.exchange.unread(*index).unwrap_or(0);
        }
    }

    /// How many more packets of a graph input its consumers take.
    fn room(&self, frame: Frame<'_>, stream: usize) -> usize {
        let consumers = &frame.plan.streams[stream].consumers;
        let room = |&input: &u32| {
            let input = input as usize;
            let node = usize::from(frame.plan.inputs[input].node);
            if self.nodes[node].status == Status::Closed || frame.plan.inputs[input].back_edge {
                return usize::MAX;
            }
            self.limits[input]
                .limit
                .saturating_sub(self.queues[input].len())
        };
        let tapped = self.streams[stream].tapped
            && self.taps.iter().any(|tap| {
                tap.stream as usize == stream && matches!(tap.to, TapTo::Output { full: true, .. })
            });
        if tapped {
            0
        } else {
            consumers.iter().map(room).min().unwrap_or(usize::MAX)
        }
    }

    /// Drops the nodes and everything that waits for them.
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.queues.clear();
        self.inbox.clear();
        self.taps.clear();
    }

    pub(super) fn summary(&self, plan: &Arc<Plan>) -> Summary {
        let elapsed = self
            .started
            .map_or(Duration::ZERO, |started| started.elapsed());
        Summary {
            plan: Arc::clone(plan),
            counts: self
                .nodes
                .iter()
                .map(|node| (node.runs, node.time))
                .collect(),
            elapsed,
        }
    }
}
