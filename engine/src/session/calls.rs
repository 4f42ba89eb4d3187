//! Calls of nodes: when a node is due, with what, and what follows from its answer.
//!
//! Every call is guarded: an error or a panic ends the session and nothing else. An inline call is a plain function call;
//! those that go on after it was made are in `away`.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::{
    calculator::Flow,
    context::{Cx, Site},
    emits::{Emission, Emits},
    error::{Error, Result},
    input::InputSet,
    node::{Answer, Instance, Node},
    plan::{Place, PlanNode},
    policy::Readiness,
    timestamp::Timestamp,
};

use super::running::{ANY, Frame, Running, Status};

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

impl Running {
    /// Looks at a node and calls it if it is due. True if it was.
    pub(super) fn visit(&mut self, frame: Frame<'_>, node: usize) -> bool {
        let plan = &frame.plan.nodes[node];
        let state = &mut self.nodes[node];
        if state.status != Status::Open {
            return false;
        }
        if state.away.as_ref().is_some_and(|away| away.is_stopped()) {
            return false;
        }
        let mut close = state.holds <= 0;
        if !plan.inputs.is_empty() {
            match state.readiness(&self.queues[plan.inputs.clone()]) {
                Readiness::Process(_) if state.full_edges > 0 => return false,
                Readiness::Process(at) => {
                    state.laggard = ANY;
                    self.fill(frame, node, at);
                    self.call(frame, node, Call::Inputs(at));
                    return true;
                }
                Readiness::Waiting(waiting) => {
                    close = false;
                    if state.policy.waits_for_laggard() {
                        state.laggard = waiting.stream;
                    }
                    // The outputs of calls that are away come first.
                    if waiting.until.is_range() && !state.is_away() {
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
        if state.full_edges > 0 || state.is_away() {
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
    #[inline]
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
        match (&mut state.instance, frame.plan.nodes[node].place) {
            (Some(Instance::Sync(instance)), Place::Inline) => {
                self.timer.before(state.runs);
                let mut emits = std::mem::take(&mut self.emits);
                emits.start(free);
                let set = &mut state.set;
                let flow = guarded(frame, node, &mut **instance, set, &mut emits, call);
                self.account(node);
                self.finish(frame, node, call, flow, &mut emits);
                self.emits = emits;
            }
            (Some(Instance::Sync(_)), Place::Executor(executor)) => {
                self.offload(frame, node, usize::from(executor), call, free);
            }
            (Some(Instance::Async(_)), _) if call == Call::Close => {
                self.close_async(frame, node, free);
            }
            (Some(Instance::Async(_)), _) => self.start_async(frame, node, call, free),
            // All instances are away, and the node may be called once more: another one is made.
            (None, Place::Executor(executor)) if frame.plan.nodes[node].lanes > 1 => {
                self.offload(frame, node, usize::from(executor), call, free);
            }
            (None, Place::Inline) if frame.plan.nodes[node].lanes > 1 => {
                self.start_async(frame, node, call, free);
            }
            (None, _) => {}
        }
    }

    /// Counts a call, which has ended now, and charges the node with it.
    pub(super) fn account(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        if let Some(time) = self.timer.after(state.runs) {
            state.time += time;
        }
        state.runs += 1;
        state.since = Some(self.timer.read());
    }

    /// Draws the consequences of a call.
    pub(super) fn finish(
        &mut self,
        frame: Frame<'_>,
        node: usize,
        call: Call,
        flow: Answer<Flow>,
        emits: &mut Emits,
    ) {
        let state = &mut self.nodes[node];
        state.set.clear();
        state.holds += emits.holds as i32;
        let flow = match flow {
            Ok(flow) => flow,
            Err(error) => {
                if call == Call::Close || emits.panicked {
                    self.give_up(node);
                }
                return self.fail(frame, node, *error);
            }
        };
        emits.merge_bounds();
        if frame.plan.nodes[node].by_stream {
            order_by_stream(&frame.plan.nodes[node], call, flow, emits);
        }
        for emission in emits.list.drain(..) {
            if let Err(error) = self.emitted(frame, node, emission) {
                if call == Call::Close {
                    self.give_up(node);
                }
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
                match &mut self.nodes[node].away {
                    Some(away) if away.any() => away.stop(),
                    _ => self.call(frame, node, Call::Close),
                }
            }
            (Call::Inputs(at), Flow::Continue) if self.is_exhausted(frame, node, at) => {}
            (_, Flow::Continue) => {
                self.ready.insert(node as u16);
                self.resume(frame, node);
            }
        }
    }

    /// Whether a node that was called for `at` can only be due again after its input changes. Decided without a look at
    /// its policy for the nodes that make most of a graph, those with one input.
    fn is_exhausted(&self, frame: Frame<'_>, node: usize, at: Timestamp) -> bool {
        let (inputs, state) = (&frame.plan.nodes[node].inputs, &self.nodes[node]);
        let queue = &self.queues[inputs.start];
        let next = at.next();
        inputs.len() == 1
            && state.policy.waits_for_laggard()
            && queue.is_empty()
            && queue.bound() == next
            && next.is_range()
            && state.events.is_empty()
    }

    #[inline]
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
            Ok::<_, Error>(())
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

    pub(super) fn stop_sources(&mut self, frame: Frame<'_>) {
        self.stopping = true;
        for source in 0..self.nodes.len() {
            if self.nodes[source].status == Status::Open && frame.plan.nodes[source].is_source() {
                self.call(frame, source, Call::Close);
            }
        }
    }

    /// Drops a node that must not be called any more.
    pub(super) fn give_up(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        state.status = Status::Closed;
        let instance = state.instance.take();
        if let Err(error) = catch(move || {
            drop(instance);
            Ok::<(), Error>(())
        }) {
            tracing::debug!(%error, "a node that failed could not be dropped");
        }
    }

    pub(super) fn fail(&mut self, frame: Frame<'_>, node: usize, error: Error) {
        self.failed
            .get_or_insert(error.at_node(&frame.plan.nodes[node].name));
    }
}

/// Lets what a call puts out leave one stream after the other, each with the bound that follows from the call.
fn order_by_stream(plan: &PlanNode, call: Call, flow: Flow, emits: &mut Emits) {
    for (output, offset) in plan.offsets.iter().enumerate() {
        let output = output as u16;
        match (call, flow, offset) {
            (Call::Close, ..) => emits.list.push(Emission::Close { output }),
            (Call::Inputs(at), Flow::Continue, Some(offset)) if at.is_allowed_in_stream() => {
                let at = at.offset_bound(*offset);
                emits.list.push(Emission::AtLeast { output, at });
            }
            _ => {}
        }
    }
    emits.list.sort_by_key(Emission::stream);
}

pub(super) fn site(frame: Frame<'_>, node: usize) -> Site<'_> {
    Site {
        node: node as u16,
        name: &frame.plan.nodes[node].name,
        session: frame.shared,
        ended: None,
    }
}

pub(super) fn guarded(
    frame: Frame<'_>,
    node: usize,
    instance: &mut dyn Node,
    set: &mut InputSet,
    out: &mut Emits,
    call: Call,
) -> Answer<Flow> {
    let site = site(frame, node);
    let called = catch_unwind(AssertUnwindSafe(|| {
        let out = &mut *out;
        let mut cx = Cx { site, set, out };
        match call {
            Call::Close => instance.close(&mut cx).map(|()| Flow::Stop),
            Call::Inputs(_) | Call::Event | Call::Source => instance.process(&mut cx),
        }
    }));
    called.unwrap_or_else(|panic| {
        out.panicked = true;
        Err(panicked(&*panic).into())
    })
}

/// Turns a panic into an error.
pub(super) fn catch<T, E: From<Error>>(call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(&*panic).into()))
}

pub(super) fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::internal(format!(
        "the calculator panicked: {}",
        text.unwrap_or("no message")
    ))
}
