//! The state of a session, plain data reached by index, and its main loop.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use smallvec::SmallVec;
use tokio::sync::oneshot;

use crate::{
    emits::Emits,
    error::{Error, Result},
    plan::{NodeTotals, Plan},
    timestamp::Timestamp,
};

use super::{
    away::InFlight,
    message::SessionMessage,
    node::{NodeState, Status},
    nodes::Nodes,
    packet_observer::{PacketObserver, Watchers},
    queues::Queues,
    shared::{Frame, SessionState},
    sides::SideValues,
    streams::StreamState,
    summary::{HeldPackets, Summary},
    taps::{Observer, Taps},
    timeline::Recorder,
    timer::Timer,
};

/// Number of calls after which a session lets other tasks run. A runtime cannot see how long a poll
/// takes.
const CALLS_PER_POLL: usize = 128;

/// The next step of a session in which no node is ready.
pub(super) enum Idle {
    /// Go on, because something became ready.
    Again,
    /// Wait for an outside event.
    Waiting,
    /// End the session: all work is done.
    Finished,
}

/// A value that is dropped once the nodes have taken all packets up to `at` of a stream.
struct Deposit {
    stream: u32,
    at: Timestamp,
    _value: Box<dyn Send>,
}

pub(super) struct Running {
    pub(super) nodes: Nodes,
    pub(super) queues: Queues,
    /// Streams in the order of the plan.
    pub(super) streams: Vec<StreamState>,
    pub(super) taps: Taps,
    pub(super) watchers: Watchers,
    /// Recorder of the timeline, if the session keeps one.
    pub(super) recorder: Option<Box<Recorder>>,
    pub(super) sides: SideValues,
    pub(super) in_flight: InFlight,
    pub(super) timer: Timer,
    /// Output of the current inline call; reused for every call.
    pub(super) emits: Emits,
    inbox: VecDeque<SessionMessage>,
    /// Values from outside that are dropped when packets are taken.
    kept: Vec<Deposit>,
    /// Waiters for an idle session; with `true`, also no node may wait for an event.
    pub(super) idle_waiters: Vec<(bool, oneshot::Sender<()>)>,
    /// Number of graph inputs that are still open.
    pub(super) open_inputs: usize,
    /// Error that ends the session.
    pub(super) failed: Option<Error>,
}

impl Running {
    pub(super) fn new(plan: &Plan, sides: SideValues) -> Self {
        Self {
            nodes: Nodes::new(plan),
            queues: Queues::new(plan),
            streams: plan.streams.iter().map(|_| StreamState::new()).collect(),
            taps: Taps::default(),
            watchers: Watchers::default(),
            recorder: None,
            sides,
            in_flight: InFlight::default(),
            timer: Timer::new(),
            emits: Emits::default(),
            inbox: VecDeque::new(),
            kept: Vec::new(),
            idle_waiters: Vec::new(),
            open_inputs: plan.graph_inputs.len(),
            failed: None,
        }
    }

    pub(super) fn observe(&mut self, stream: u32, bounds: bool, observer: Observer) {
        self.streams[stream as usize].tapped = true;
        self.taps.observe(stream, bounds, observer);
    }

    pub(super) fn observe_packets(&mut self, watcher: PacketObserver) {
        self.watchers.add(watcher, &mut self.streams);
    }

    pub(super) fn record(&mut self, recorder: Recorder) {
        self.timer.all = true;
        for stream in &mut self.streams {
            stream.watched = true;
        }
        self.recorder = Some(Box::new(recorder));
    }

    /// Runs nodes, those nearest to the outputs first, until none can run or until other tasks
    /// should get their turn.
    pub(super) fn run(&mut self, frame: Frame<'_>, cx: &Context<'_>) -> Poll<Result<Summary>> {
        self.begin(frame);
        let mut calls = 0;
        while calls < CALLS_PER_POLL {
            self.receive(frame);
            while calls < CALLS_PER_POLL
                && self.failed.is_none()
                && let Some(node) = self.nodes.next()
            {
                calls += usize::from(self.visit(frame, usize::from(node)));
                frame.check_cancelled()?;
            }
            if let Some(error) = self.failed.take() {
                return Poll::Ready(Err(error));
            }
            if self.nodes.any_ready() {
                continue;
            }
            match self.idle(frame) {
                Idle::Again => calls += 1,
                Idle::Finished => {
                    let closed = self.close_rest(frame, None);
                    return Poll::Ready(closed.map(|()| self.summary(frame.plan)));
                }
                Idle::Waiting => {
                    if self.publish(frame, Some(cx)) {
                        self.tell_idle();
                        return Poll::Pending;
                    }
                }
            }
        }
        self.publish(frame, None);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Starts a poll; in the first one, starts the session.
    fn begin(&mut self, frame: Frame<'_>) {
        if !self.timer.begin() {
            return;
        }
        let taken: Vec<u32> = {
            let mut state = frame.shared.lock();
            state.started = true;
            state.outputs.to_vec()
        };
        for (index, stream) in taken.into_iter().enumerate() {
            self.streams[stream as usize].tapped = true;
            self.taps.add_output(stream, index);
        }
        self.open_nodes(frame);
    }

    /// Handles the messages in the inbox.
    fn receive(&mut self, frame: Frame<'_>) {
        let mut inbox = std::mem::take(&mut self.inbox);
        {
            let mut state = frame.shared.lock();
            state.exchange.receive(&mut inbox);
            let Self { taps, nodes, .. } = self;
            taps.look_at_readers(&state.exchange, |stream, full| {
                nodes.edge_changed(frame.plan.streams[stream as usize].producer, full);
            });
        }
        for message in inbox.drain(..) {
            if let Err(error) = self.handle(frame, message) {
                self.failed.get_or_insert(error);
            }
        }
        self.inbox = inbox;
    }

    fn handle(&mut self, frame: Frame<'_>, message: SessionMessage) -> Result<()> {
        let stream = |input| frame.plan.graph_inputs[usize::from(input)].stream as usize;
        match message {
            SessionMessage::Packet { input, packet } => {
                let stream = stream(input);
                if self.streams[stream].closed && !self.has_takers(frame, stream) {
                    return frame.plan.streams[stream].check_type(&packet);
                }
                return self.put(frame, stream, packet);
            }
            SessionMessage::Bound { input, at } => return self.bound(frame, stream(input), at),
            SessionMessage::KeepUntilTaken { input, at, kept } => self.kept.push(Deposit {
                stream: stream(input) as u32,
                at,
                _value: kept,
            }),
            SessionMessage::CloseInput { input } => {
                self.open_inputs -= 1;
                return self.close_stream(frame, stream(input));
            }
            SessionMessage::StopSources => self.stop_sources(frame),
            SessionMessage::Event { node, event } => {
                if self.nodes[usize::from(node)].add_event(event) {
                    self.nodes.look_at(node);
                }
            }
            SessionMessage::Released { node } => {
                self.nodes[usize::from(node)].release();
                self.nodes.look_at(node);
            }
            SessionMessage::Poll { node, slot } => self.poll_future(frame, usize::from(node), slot),
            SessionMessage::Returned { node, returned } => {
                self.returned(frame, usize::from(node), *returned);
            }
            // The caller may have given up meanwhile.
            SessionMessage::Why(answer) => drop(answer.send(self.why(frame.plan))),
            SessionMessage::Snapshot(answer) => drop(answer.send(self.snapshot(frame.plan))),
            SessionMessage::Timeline(answer) => {
                let recorder = self.recorder.as_ref();
                drop(answer.send(recorder.map(|recorder| recorder.timeline())));
            }
            SessionMessage::Observe(watcher) => self.observe_packets(*watcher),
            SessionMessage::Idle {
                answer,
                without_events,
            } => self.idle_waiters.push((without_events, answer)),
        }
        Ok(())
    }

    /// Hands over packets, opens gates and, if `sleep` is given, goes to sleep. Returns `false` if
    /// there is more to do instead.
    fn publish(&mut self, frame: Frame<'_>, sleep: Option<&Context<'_>>) -> bool {
        self.drop_taken(frame);
        let ports = frame.plan.graph_inputs.iter();
        let rooms: SmallVec<[usize; 2]> = ports.map(|port| self.room(frame, port.stream)).collect();
        let mut wakers: Vec<Waker> = Vec::new();
        let mut state = frame.shared.lock();
        self.taps
            .hand_over(&self.streams, &mut state.exchange, &mut wakers);
        for (gate, room) in rooms.into_iter().enumerate() {
            state.exchange.open(gate, room, &mut wakers);
        }
        let asleep = sleep.is_some_and(|cx| state.exchange.sleep(self.taps.full(), cx));
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        asleep
    }

    /// Drops values whose packets have left the queues.
    fn drop_taken(&mut self, frame: Frame<'_>) {
        let Self { kept, queues, .. } = self;
        kept.retain(|kept| {
            let mut consumers = frame.plan.streams[kept.stream as usize].consumers.iter();
            consumers.any(|&input| queues[input as usize].times().any(|time| time <= kept.at))
        });
    }

    /// Returns the number of packets of a graph input for which its consumers have room.
    fn room(&self, frame: Frame<'_>, stream: u32) -> usize {
        if self.streams[stream as usize].tapped && self.taps.unread(stream).is_some() {
            return 0;
        }
        let consumers = frame.plan.streams[stream as usize].consumers.iter();
        let open = consumers.filter(|&&input| {
            let node = frame.plan.inputs[input as usize].node;
            self.nodes[usize::from(node)].status != Status::Closed
        });
        let rooms = open.map(|&input| self.queues.room(input as usize));
        rooms.min().unwrap_or(usize::MAX)
    }

    /// Notifies waiters that the session is idle, unless a call is in progress elsewhere.
    fn tell_idle(&mut self) {
        if self.in_flight.calls > 0 {
            return;
        }
        let waits_for_events = self.nodes.held().next().is_some();
        let told = |(without_events, _): &mut (bool, _)| !*without_events || !waits_for_events;
        // The caller may have given up meanwhile.
        self.idle_waiters
            .extract_if(.., told)
            .for_each(|(_, waiter)| _ = waiter.send(()));
    }

    /// Ends the session with an error of a node, unless it has failed already.
    pub(super) fn fail(&mut self, frame: Frame<'_>, node: usize, error: Error) {
        self.failed
            .get_or_insert(error.at_node(&frame.plan.nodes[node].name));
    }

    /// Hands over the remaining packets at the end.
    pub(super) fn flush(&mut self, shared: &SessionState) {
        let mut wakers = Vec::new();
        let mut state = shared.lock();
        self.taps
            .hand_over(&self.streams, &mut state.exchange, &mut wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Drops the nodes, their queues and all receivers.
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.queues.clear();
        self.inbox.clear();
        self.kept.clear();
        self.taps.clear();
        self.watchers.clear();
    }

    /// Adds the counts of the nodes to the totals of the plan. `error` is the error that ended the
    /// session.
    pub(super) fn settle(&self, plan: &Plan, error: Option<&Error>) {
        let failed = error.and_then(|error| error.node.as_deref());
        let nodes = self.nodes.iter().zip(&plan.nodes).map(|(state, node)| {
            let counts = state.counts();
            NodeTotals {
                calls: counts.runs,
                errors: u64::from(failed == Some(&*node.name)),
                busy: counts.time,
            }
        });
        let packets = self.streams.iter().map(|stream| stream.packets);
        plan.ledger.add(nodes, packets);
    }

    /// Lists the packets left in queues.
    fn held(&self, plan: &Plan) -> Arc<[HeldPackets]> {
        let inputs = plan.inputs.iter().enumerate();
        let held = inputs.filter_map(|(input, edge)| {
            let queue = &self.queues[input];
            Some(HeldPackets {
                first: queue.times().next()?,
                packets: queue.len(),
                node: Arc::clone(&plan.nodes[usize::from(edge.node)].name),
                stream: Arc::clone(&plan.streams[edge.stream as usize].name),
            })
        });
        held.collect()
    }

    pub(super) fn summary(&self, plan: &Arc<Plan>) -> Summary {
        Summary {
            plan: Arc::clone(plan),
            counts: self.nodes.iter().map(NodeState::counts).collect(),
            held: self.held(plan),
            elapsed: self.timer.elapsed(),
        }
    }
}
