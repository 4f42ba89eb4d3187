//! Calls that are not over when they have been made: on executors, and of async nodes.
//!
//! A call on an executor takes the node along and brings it back through the inbox; the call of an async node is a future
//! that the session polls when its own waker asks for it.

use std::{
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
    running::{Frame, Running, Status},
    shared::{Message, Shared},
};

/// A node that was away on an executor.
pub(crate) struct Returned {
    node: Box<dyn Node>,
    set: InputSet,
    emits: Emits,
    call: Call,
    flow: Answer<Flow>,
    time: Duration,
}

/// Asks the session to poll the future of one async node.
pub(super) struct PollNode {
    shared: Arc<Shared>,
    node: u16,
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
            // If the session has ended, the future is gone.
            drop(self.shared.send(Message::Poll { node: self.node }));
        }
    }
}

impl Running {
    /// Calls a node on an executor.
    pub(super) fn offload(
        &mut self,
        frame: Frame<'_>,
        node: usize,
        executor: usize,
        call: Call,
        free: Timestamp,
    ) {
        let state = &mut self.nodes[node];
        let Some(Instance::Sync(mut instance)) = state.instance.take() else {
            return;
        };
        let mut set = std::mem::take(&mut state.set);
        state.status = Status::Busy;
        state.since = Some(self.timer.read());
        self.busy += 1;
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
                node: instance,
                set,
                emits,
                call,
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
        let Returned {
            node: instance,
            set,
            mut emits,
            call,
            flow,
            time,
        } = returned;
        let state = &mut self.nodes[node];
        state.instance = Some(Instance::Sync(instance));
        state.set = set;
        state.status = Status::Open;
        state.runs += 1;
        state.time += time;
        state.since = Some(self.timer.read());
        self.busy -= 1;
        self.finish(frame, node, call, flow, &mut emits);
    }

    /// Starts the call of an async node.
    pub(super) fn start_async(
        &mut self,
        frame: Frame<'_>,
        node: usize,
        call: Call,
        free: Timestamp,
    ) {
        let state = &mut self.nodes[node];
        let Some(Instance::Async(instance)) = state.instance.take() else {
            return;
        };
        let mut emits = Emits::default();
        emits.start(free);
        let empty = InputSet::new(frame.plan.nodes[node].inputs.len());
        let set = std::mem::replace(&mut state.set, empty);
        state.future = Some((call, instance.process(set, emits)));
        state.status = Status::Busy;
        state.since = Some(self.timer.read());
        self.busy += 1;
        self.poll_future(frame, node);
    }

    /// Polls the call of an async node.
    pub(super) fn poll_future(&mut self, frame: Frame<'_>, node: usize) {
        let state = &mut self.nodes[node];
        let Some((call, future)) = &mut state.future else {
            return;
        };
        let call = *call;
        let poll = state.poll.get_or_insert_with(|| {
            Arc::new(PollNode {
                shared: Arc::clone(frame.shared),
                node: node as u16,
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
                state.future = None;
                self.fail(frame, node, panicked(&*panic));
                return;
            }
        };
        state.future = None;
        state.instance = Some(Instance::Async(returned.node));
        state.status = Status::Open;
        self.busy -= 1;
        self.account(node);
        let mut emits = returned.out;
        self.finish(
            frame,
            node,
            call,
            returned.flow.map_err(Box::new),
            &mut emits,
        );
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
