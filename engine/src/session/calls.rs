//! Calls of nodes: when a node is due, with what, and what follows from its answer.
//!
//! Every call is guarded: an error or a panic ends the session and nothing else. An inline call is a plain function call; a
//! call on an executor takes the node along and brings it back through the inbox; the call of an async node is a future
//! that the session polls when its own waker asks for it.

use std::{
    any::Any,
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
    context::{Cx, Site},
    emits::{Emission, Emits},
    error::{Error, Result},
    input::InputSet,
    node::{Instance, Node},
    plan::Place,
    policy::Readiness,
    timestamp::Timestamp,
};

use super::{
    running::{Frame, Running, Status},
    shared::{Message, Shared},
};

/// Why a node is called.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// An input set at this timestamp is complete.
    Inputs(Timestamp),
    Event,
    /// The node is a source, and nothing else is to be done.
    Source,
    Close,
}

/// A node that was away on an executor.
pub(crate) struct Returned {
    node: Box<dyn Node>,
    set: InputSet,
    emits: Emits,
    call: Call,
    flow: Result<Flow>,
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
    /// Looks at a node and calls it if it is due. True if it was.
    pub(super) fn visit(&mut self, frame: Frame<'_>, node: usize) -> bool {
        let plan = &frame.plan.nodes[node];
        let state = &mut self.nodes[node];
        if state.status != Status::Open {
            return false;
        }
        let mut close = state.holds <= 0;
        if !plan.inputs.is_empty() {
            match state.policy.readiness(&self.queues[plan.inputs.clone()]) {
                Readiness::Process(_) if state.full_edges > 0 => return false,
                Readiness::Process(at) => {
                    state
                        .policy
                        .fill(at, &mut self.queues[plan.inputs.clone()], &mut state.set);
                    for input in plan.inputs.clone() {
                        self.refresh(frame, input);
                    }
                    self.call(frame, node, Call::Inputs(at));
                    return true;
                }
                Readiness::Waiting(waiting) => {
                    close = false;
                    if waiting.until.is_range() {
                        self.pass_bound(frame, node, |offset| waiting.until.shift(offset));
                    }
                }
                Readiness::Close => {}
            }
        } else if !plan.has_events {
            // Sources are called when nothing else is due; nodes without streams only open and close.
            return false;
        }
        let state = &mut self.nodes[node];
        if state.full_edges > 0 {
            return false;
        }
        if let Some(event) = state.events.pop_front() {
            state.set.set_event(event);
            self.call(frame, node, Call::Event);
            return true;
        }
        if close {
            self.call(frame, node, Call::Close);
        }
        close
    }

    /// Moves the bounds of the outputs that follow the inputs.
    fn pass_bound(&mut self, frame: Frame<'_>, node: usize, bound: impl Fn(i64) -> Timestamp) {
        let plan = &frame.plan.nodes[node];
        for (output, offset) in plan.outputs.clone().zip(&plan.offsets) {
            if let Some(offset) = offset
                && let Err(error) =
                    self.raise(frame, frame.plan.outputs[output] as usize, bound(*offset))
            {
                self.fail(frame, node, error);
            }
        }
    }

    /// The first timestamp, from 0, that is free on all outputs of a node.
    fn free_time(&self, frame: Frame<'_>, node: usize) -> Timestamp {
        let outputs = &frame.plan.outputs[frame.plan.nodes[node].outputs.clone()];
        let streams = outputs.iter().map(|&stream| &self.streams[stream as usize]);
        let bounds = streams
            .filter(|stream| !stream.closed)
            .map(|stream| stream.bound);
        bounds.max().unwrap_or(Timestamp::ZERO).max(Timestamp::ZERO)
    }

    /// Calls an open node whose input set is filled.
    pub(super) fn call(&mut self, frame: Frame<'_>, node: usize, call: Call) {
        let free = match call {
            Call::Inputs(at) => at,
            Call::Event | Call::Source | Call::Close => self.free_time(frame, node),
        };
        let state = &mut self.nodes[node];
        state.set.set_time(match call {
            Call::Inputs(at) => at,
            Call::Event => free,
            Call::Source => Timestamp::ZERO,
            Call::Close => Timestamp::DONE,
        });
        let Some(instance) = state.instance.take() else {
            return;
        };
        match (instance, frame.plan.nodes[node].place) {
            (Instance::Sync(mut instance), Place::Inline) => {
                let mut emits = std::mem::take(&mut self.emits);
                emits.start(free);
                let flow = guarded(
                    frame,
                    node,
                    &mut *instance,
                    &mut state.set,
                    &mut emits,
                    call,
                );
                state.instance = Some(Instance::Sync(instance));
                self.account(node);
                self.finish(frame, node, call, flow, &mut emits);
                self.emits = emits;
            }
            (Instance::Sync(instance), Place::Executor(executor)) => {
                self.offload(frame, node, instance, usize::from(executor), call, free);
            }
            (Instance::Async(mut instance), _) if call == Call::Close => {
                let mut emits = Emits::default();
                emits.start(free);
                let site = site(frame, node);
                let set = &mut state.set;
                let closed = catch(|| {
                    instance.close(&mut Cx {
                        site,
                        set,
                        out: &mut emits,
                    })
                });
                state.instance = Some(Instance::Async(instance));
                self.account(node);
                self.finish(frame, node, call, closed.map(|()| Flow::Stop), &mut emits);
            }
            (Instance::Async(instance), _) => {
                let mut emits = Emits::default();
                emits.start(free);
                let empty = InputSet::new(frame.plan.nodes[node].inputs.len());
                let set = std::mem::replace(&mut state.set, empty);
                state.future = Some((call, instance.process(set, emits)));
                state.status = Status::Busy;
                self.busy += 1;
                self.poll_future(frame, node);
            }
        }
    }

    fn offload(
        &mut self,
        frame: Frame<'_>,
        node: usize,
        mut instance: Box<dyn Node>,
        executor: usize,
        call: Call,
        free: Timestamp,
    ) {
        let state = &mut self.nodes[node];
        let mut set = std::mem::take(&mut state.set);
        state.status = Status::Busy;
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
        state.since = self.now;
        self.busy -= 1;
        self.finish(frame, node, call, flow, &mut emits);
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
        self.finish(frame, node, call, returned.flow, &mut emits);
    }

    /// Charges a node with the time since the last call of any node ended.
    fn account(&mut self, node: usize) {
        let now = Instant::now();
        let state = &mut self.nodes[node];
        state.runs += 1;
        state.time += self.now.map_or(Duration::ZERO, |before| now - before);
        state.since = Some(now);
        self.now = Some(now);
    }

    /// Draws the consequences of a call.
    fn finish(
        &mut self,
        frame: Frame<'_>,
        node: usize,
        call: Call,
        flow: Result<Flow>,
        emits: &mut Emits,
    ) {
        let state = &mut self.nodes[node];
        state.set.clear();
        state.holds += emits.holds as i32;
        let flow = match flow {
            Ok(flow) => flow,
            Err(error) => return self.fail(frame, node, error),
        };
        for emission in emits.list.drain(..) {
            if let Err(error) = self.emitted(frame, node, emission) {
                return self.fail(frame, node, error);
            }
        }
        if let Call::Inputs(at) = call
            && flow == Flow::Continue
            && at.is_allowed_in_stream()
        {
            self.pass_bound(frame, node, |offset| at.offset_bound(offset));
        }
        match (call, flow) {
            (Call::Close, _) => self.closed(frame, node),
            (_, Flow::Stop) => {
                if !frame.plan.nodes[node].is_source() {
                    self.stop_sources(frame);
                }
                self.call(frame, node, Call::Close);
            }
            (_, Flow::Continue) => self.ready.insert(node as u16),
        }
    }

    pub(super) fn emitted(
        &mut self,
        frame: Frame<'_>,
        node: usize,
        emission: Emission,
    ) -> Result<()> {
        let plan = &frame.plan.nodes[node];
        let stream =
            |output: u16| frame.plan.outputs[plan.outputs.start + usize::from(output)] as usize;
        match emission {
            Emission::Packet { output, packet } => self.put(frame, stream(output), packet),
            Emission::Bound { output, at } => self.bound(frame, stream(output), at),
            Emission::AtLeast { output, at } => self.raise(frame, stream(output), at),
            Emission::Close { output } => self.close_stream(frame, stream(output)),
            Emission::Side { output, packet } => self.set_side(
                frame,
                plan.side_outputs[usize::from(output)] as usize,
                packet,
            ),
        }
    }

    /// A node is done: its outputs close and its queues are emptied.
    fn closed(&mut self, frame: Frame<'_>, node: usize) {
        let plan = &frame.plan.nodes[node];
        let state = &mut self.nodes[node];
        state.status = Status::Closed;
        state.events.clear();
        let instance = state.instance.take();
        if let Err(error) = catch(|| {
            drop(instance);
            Ok(())
        }) {
            self.fail(frame, node, error);
        }
        for input in plan.inputs.clone() {
            self.queues[input].clear();
            self.refresh(frame, input);
        }
        for &stream in &frame.plan.outputs[plan.outputs.clone()] {
            if let Err(error) = self.close_stream(frame, stream as usize) {
                self.fail(frame, node, error);
            }
        }
    }

    fn stop_sources(&mut self, frame: Frame<'_>) {
        for source in 0..self.nodes.len() {
            if self.nodes[source].status == Status::Open && frame.plan.nodes[source].is_source() {
                self.call(frame, source, Call::Close);
            }
        }
    }

    pub(super) fn fail(&mut self, frame: Frame<'_>, node: usize, error: Error) {
        self.failed
            .get_or_insert(error.at_node(&frame.plan.nodes[node].name));
    }
}

pub(super) fn site(frame: Frame<'_>, node: usize) -> Site<'_> {
    Site {
        node: node as u16,
        name: &frame.plan.nodes[node].name,
        shared: frame.shared,
    }
}

fn guarded(
    frame: Frame<'_>,
    node: usize,
    instance: &mut dyn Node,
    set: &mut InputSet,
    out: &mut Emits,
    call: Call,
) -> Result<Flow> {
    let site = site(frame, node);
    catch(|| {
        let mut cx = Cx { site, set, out };
        match call {
            Call::Close => instance.close(&mut cx).map(|()| Flow::Stop),
            Call::Inputs(_) | Call::Event | Call::Source => instance.process(&mut cx),
        }
    })
}

/// Turns a panic into an error.
pub(super) fn catch<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::internal(format!(
        "the calculator panicked: {}",
        text.unwrap_or("no message")
    ))
}
