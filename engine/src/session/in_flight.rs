//! Calls that are not over when they have been made: on executors, and of async nodes.
//!
//! A call on an executor takes the node along and brings it back through the inbox; the call of an async node is a future
//! that the session polls when its own waker asks for it. A node whose calls are independent may be away on several at once,
//! each with an instance of its own; what they put out leaves the node in the order in which they were made.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use crate::{
    calculator::Flow,
    context::Cx,
    emits::Emits,
    input::InputSet,
    node::{Answer, Instance, Node},
    timestamp::Timestamp,
};

use super::{
    calls::{Call, catch, guarded, panicked, site},
    running::{Frame, NodeFuture, Running, Status},
    shared::{Message, Shared},
};

/// A node that was away on an executor.
pub(crate) struct Returned {
    slot: u16,
    node: Box<dyn Node>,
    set: InputSet,
    emits: Emits,
    flow: Answer<Flow>,
    time: Duration,
}

/// Asks the session to poll the future of one call of an async node.
pub(super) struct PollNode {
    shared: Arc<Shared>,
    node: u16,
    slot: u16,
    /// A message is on its way.
    asked: AtomicBool,
}

impl Wake for PollNode {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release pairs with the Acquire in `poll_future`: the poll sees what was written before the wake.
        if !self.asked.swap(true, Ordering::AcqRel) {
            let (node, slot) = (self.node, self.slot);
            // If the session has ended, the future is gone.
            drop(self.shared.send(Message::Poll { node, slot }));
        }
    }
}

/// The calls of one node that go on elsewhere.
#[derive(Default)]
pub(super) struct Away {
    /// As many as calls were ever away at once.
    slots: Vec<Slot>,
    /// The slots in use, in the order in which their calls were made.
    order: VecDeque<u16>,
    /// Free instances, besides that of the node itself.
    spare: Vec<Instance>,
    /// The node has stopped: what later calls put out no longer matters.
    stopped: bool,
}

/// The place of one call.
struct Slot {
    call: Call,
    work: Work,
    poll: Option<Arc<PollNode>>,
}

enum Work {
    /// On an executor, or nothing.
    Elsewhere,
    Future(NodeFuture),
    /// Over, but an earlier one is not.
    Done(Answer<Flow>, Emits),
}

impl Away {
    /// Whether calls are away.
    pub(super) fn any(&self) -> bool {
        !self.order.is_empty()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Lets the calls that are away end, and then closes the node.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Takes a free slot for a call.
    fn begin(&mut self, call: Call) -> u16 {
        let free = (0..self.slots.len() as u16).find(|slot| !self.order.contains(slot));
        let slot = free.unwrap_or_else(|| {
            self.slots.push(Slot {
                call,
                work: Work::Elsewhere,
                poll: None,
            });
            self.slots.len() as u16 - 1
        });
        self.slots[usize::from(slot)].call = call;
        self.order.push_back(slot);
        slot
    }

    /// The answer of the earliest call, once it is there.
    fn next(&mut self) -> Option<(Call, Answer<Flow>, Emits)> {
        let slot = &mut self.slots[usize::from(*self.order.front()?)];
        if !matches!(slot.work, Work::Done(..)) {
            return None;
        }
        self.order.pop_front();
        match std::mem::replace(&mut slot.work, Work::Elsewhere) {
            Work::Done(flow, emits) => Some((slot.call, flow, emits)),
            Work::Elsewhere | Work::Future(_) => None,
        }
    }
}

impl Running {
    /// Takes an instance of a node, and its input set, for a call that goes away.
    fn depart(
        &mut self,
        frame: Frame<'_>,
        node: usize,
        call: Call,
    ) -> Option<(Instance, InputSet, u16)> {
        let plan = &frame.plan.nodes[node];
        let state = &mut self.nodes[node];
        let away = state.away.get_or_insert_default();
        let instance = match state.instance.take().or_else(|| away.spare.pop()) {
            Some(instance) => instance,
            None => match self.open_another(frame, node) {
                Ok(instance) => instance,
                Err(error) => {
                    self.fail(frame, node, error);
                    return None;
                }
            },
        };
        let state = &mut self.nodes[node];
        let away = state.away.get_or_insert_default();
        let slot = away.begin(call);
        let set = if plan.lanes > 1 {
            std::mem::replace(&mut state.set, InputSet::new(plan.inputs.len()))
        } else {
            std::mem::take(&mut state.set)
        };
        if away.order.len() < usize::from(plan.lanes) && call != Call::Close {
            self.ready.insert(node as u16);
        } else {
            state.status = Status::Busy;
        }
        state.since = Some(self.timer.read());
        self.busy += 1;
        Some((instance, set, slot))
    }

    /// Takes an instance back, and draws the consequences of the calls that are over and have none before them.
    fn arrive(
        &mut self,
        frame: Frame<'_>,
        node: usize,
        slot: u16,
        instance: Instance,
        (flow, emits): (Answer<Flow>, Emits),
    ) {
        self.busy -= 1;
        let state = &mut self.nodes[node];
        let away = state.away.get_or_insert_default();
        match &state.instance {
            None => state.instance = Some(instance),
            Some(_) => away.spare.push(instance),
        }
        state.status = Status::Open;
        away.slots[usize::from(slot)].work = Work::Done(flow, emits);
        while self.failed.is_none()
            && let Some(away) = &mut self.nodes[node].away
            && let Some((call, flow, mut emits)) = away.next()
        {
            if away.stopped && call != Call::Close {
                continue;
            }
            self.finish(frame, node, call, flow, &mut emits);
        }
        let state = &mut self.nodes[node];
        self.ready.insert(node as u16);
        if state.status == Status::Open
            && state
                .away
                .as_ref()
                .is_some_and(|away| away.stopped && !away.any())
        {
            self.call(frame, node, Call::Close);
        }
    }

    /// Calls a node on an executor.
    pub(super) fn offload(
        &mut self,
        frame: Frame<'_>,
        node: usize,
        executor: usize,
        call: Call,
        free: Timestamp,
    ) {
        if !self.offloads && call != Call::Close {
            if let Err(full) = frame.plan.executors[executor].admit() {
                self.fail(frame, node, full);
                return;
            }
            self.offloads = true;
        }
        let Some((Instance::Sync(mut instance), mut set, slot)) = self.depart(frame, node, call)
        else {
            return;
        };
        let (plan, shared) = (Arc::clone(frame.plan), Arc::clone(frame.shared));
        frame.plan.executors[executor].spawn(Box::new(move || {
            // A session that is gone wants no answer.
            if shared.run.cancel.is_cancelled() {
                return;
            }
            let frame = Frame {
                plan: &plan,
                shared: &shared,
            };
            let mut emits = Emits::default();
            emits.start(free);
            let started = Instant::now();
            let flow = guarded(frame, node, &mut *instance, &mut set, &mut emits, call);
            let returned = Returned {
                slot,
                node: instance,
                set,
                emits,
                flow,
                time: started.elapsed(),
            };
            let message = Message::Returned {
                node: node as u16,
                returned: Box::new(returned),
            };
            // If the session has ended meanwhile, the node is dropped here.
            drop(shared.send(message));
        }));
    }

    /// Takes a node back from its executor.
    pub(super) fn returned(&mut self, frame: Frame<'_>, node: usize, returned: Returned) {
        let state = &mut self.nodes[node];
        state.set = returned.set;
        state.runs += 1;
        state.time += returned.time;
        state.since = Some(self.timer.read());
        let answer = (returned.flow, returned.emits);
        let instance = Instance::Sync(returned.node);
        self.arrive(frame, node, returned.slot, instance, answer);
    }

    /// Starts the call of an async node.
    pub(super) fn start_async(
        &mut self,
        frame: Frame<'_>,
        node: usize,
        call: Call,
        free: Timestamp,
    ) {
        let Some((Instance::Async(instance), set, slot)) = self.depart(frame, node, call) else {
            return;
        };
        let state = &mut self.nodes[node];
        state.set = InputSet::new(frame.plan.nodes[node].inputs.len());
        let mut emits = Emits::default();
        emits.start(free);
        let away = state.away.get_or_insert_default();
        away.slots[usize::from(slot)].work = Work::Future(instance.process(set, emits));
        self.poll_future(frame, node, slot);
    }

    /// Polls a call of an async node.
    pub(super) fn poll_future(&mut self, frame: Frame<'_>, node: usize, slot: u16) {
        let state = &mut self.nodes[node];
        let Some(away) = &mut state.away else {
            return;
        };
        let Slot { work, poll, .. } = &mut away.slots[usize::from(slot)];
        let Work::Future(future) = work else {
            return;
        };
        let poll = poll.get_or_insert_with(|| {
            Arc::new(PollNode {
                shared: Arc::clone(frame.shared),
                node: node as u16,
                slot,
                asked: AtomicBool::new(false),
            })
        });
        // Acquire pairs with the Release in `wake_by_ref`. Cleared before the poll, so that a wake during it asks again.
        poll.asked.swap(false, Ordering::Acquire);
        self.timer.before(state.runs);
        let waker = Waker::from(Arc::clone(poll));
        let polled = catch_unwind(AssertUnwindSafe(|| {
            future.as_mut().poll(&mut Context::from_waker(&waker))
        }));
        let returned = match polled {
            Ok(Poll::Pending) => return,
            Ok(Poll::Ready(returned)) => returned,
            Err(panic) => {
                *work = Work::Elsewhere;
                self.fail(frame, node, panicked(&*panic));
                return;
            }
        };
        self.account(node);
        let answer = (returned.flow.map_err(Box::new), returned.out);
        self.arrive(frame, node, slot, Instance::Async(returned.node), answer);
    }

    /// Closes an async node, which is a plain call.
    pub(super) fn close_async(&mut self, frame: Frame<'_>, node: usize, free: Timestamp) {
        let state = &mut self.nodes[node];
        let Some(Instance::Async(instance)) = &mut state.instance else {
            return;
        };
        self.timer.before(state.runs);
        let mut emits = Emits::default();
        emits.start(free);
        let (site, set, out) = (site(frame, node), &mut state.set, &mut emits);
        let closed = catch(|| instance.close(&mut Cx { site, set, out }));
        self.account(node);
        self.finish(
            frame,
            node,
            Call::Close,
            closed.map(|()| Flow::Stop),
            &mut emits,
        );
    }
}
