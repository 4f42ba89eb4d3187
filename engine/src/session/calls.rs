//! Calls of nodes: the decision that a node is ready, its inputs, and the effects of the call.
//!
//! An inline call is a plain function call. Other calls are in `in_flight`.

use crate::{
    calculator::Flow,
    calculator::erased::{CallResult, Instance},
    emits::{Emission, Emits},
    error::Result,
    plan::{NodePlace, PlanNode},
    policy::Readiness,
    timestamp::Timestamp,
};

use super::{guard::CallReason, running::Running, shared::Frame, streams::free_time};

impl Running {
    /// Checks a node and calls it if it is ready. Returns `true` if it was called.
    pub(super) fn visit(&mut self, frame: Frame<'_>, node: usize) -> bool {
        let plan = &frame.plan.nodes[node];
        let state = &mut self.nodes[node];
        if !state.is_callable() {
            return false;
        }
        let mut close = !state.is_held();
        if !plan.inputs.is_empty() {
            match state
                .intake
                .readiness(self.queues.node_queues(&plan.inputs))
            {
                Readiness::Process(_) if !state.has_room() => return false,
                Readiness::Process(at) => {
                    self.fill(frame, node, at);
                    self.call(frame, node, CallReason::Inputs(at));
                    return true;
                }
                Readiness::Waiting(waiting) => {
                    close = false;
                    state.intake.wait_for(waiting.stream);
                    // The output of calls in progress comes first.
                    if waiting.until.is_range() && !state.is_away() {
                        self.pass_bound(frame, node, |offset| waiting.until.shift(offset));
                    }
                }
                Readiness::Close => {}
            }
        } else if !plan.has_events {
            // Sources are called only when nothing else can run. Nodes without streams only open
            // and close.
            return false;
        }
        let state = &mut self.nodes[node];
        if !state.has_room() || state.is_away() {
            return false;
        }
        if state.take_event(self.queues.node_queues(&plan.inputs)) {
            self.call(frame, node, CallReason::Event);
            return true;
        }
        if close {
            self.call(frame, node, CallReason::Close);
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

    /// Calls an open node, whose input set is complete.
    pub(super) fn call(&mut self, frame: Frame<'_>, node: usize, call: CallReason) {
        let plan = &frame.plan.nodes[node];
        let free = match call {
            CallReason::Inputs(at) => at,
            CallReason::Event | CallReason::Source | CallReason::Close => {
                let outputs = &frame.plan.outputs[plan.outputs.clone()];
                free_time(&self.streams, outputs)
            }
        };
        let state = &mut self.nodes[node];
        state.set_time(call, free);
        match (state.instance.as_ref(), plan.place) {
            (Some(Instance::Sync(_)), NodePlace::Inline) => self.call_here(frame, node, call, free),
            (Some(Instance::Async(_)), _) if call == CallReason::Close => {
                self.call_here(frame, node, call, free);
            }
            (Some(Instance::Async(_)), _) => self.start_async(frame, node, call, free),
            (Some(Instance::Sync(instance)), NodePlace::Executor(_))
                if matches!(call, CallReason::Inputs(_))
                    && plan.lanes <= 1
                    && instance.is_light(&state.intake.set) =>
            {
                self.call_here(frame, node, call, free);
            }
            (Some(Instance::Sync(_)), NodePlace::Executor(executor)) => {
                self.offload(frame, node, usize::from(executor), call, free);
            }
            // All instances are in use and another call may start: make another instance.
            (None, NodePlace::Executor(executor)) if plan.lanes > 1 => {
                self.offload(frame, node, usize::from(executor), call, free);
            }
            (None, NodePlace::Inline) if plan.lanes > 1 => {
                self.start_async(frame, node, call, free);
            }
            (None, _) => {}
        }
    }

    /// Calls a node in the session's own task.
    #[inline]
    fn call_here(&mut self, frame: Frame<'_>, node: usize, call: CallReason, free: Timestamp) {
        let mut emits = std::mem::take(&mut self.emits);
        emits.start(free);
        frame.shared.enter(node);
        let state = &mut self.nodes[node];
        let flow = state.call(frame.site(node), &mut emits, call, &mut self.timer);
        if let Some(recorder) = &mut self.recorder
            && let Some((began, took)) = self.timer.last
        {
            recorder.called(node, call, began, took);
        }
        self.finish(frame, node, call, flow, &mut emits);
        self.emits = emits;
    }

    /// Applies the effects of a call that has ended.
    pub(super) fn finish(
        &mut self,
        frame: Frame<'_>,
        node: usize,
        call: CallReason,
        flow: CallResult<Flow>,
        emits: &mut Emits,
    ) {
        self.nodes[node].call_over(emits.holds);
        let flow = match flow {
            Ok(flow) => flow,
            Err(error) => {
                if call == CallReason::Close || emits.panicked {
                    self.give_up(node);
                }
                let error = match call {
                    CallReason::Inputs(at) => error.at_time(at),
                    CallReason::Event | CallReason::Source | CallReason::Close => *error,
                };
                return self.fail(frame, node, error);
            }
        };
        emits.merge_bounds();
        let plan = &frame.plan.nodes[node];
        if plan.by_stream {
            order_by_stream(plan, call, flow, emits);
        }
        for emission in emits.list.drain(..) {
            if let Err(error) = self.emitted(frame, node, emission) {
                if call == CallReason::Close {
                    self.give_up(node);
                }
                return self.fail(frame, node, error);
            }
        }
        if let CallReason::Inputs(at) = call
            && flow == Flow::Continue
            && at.is_allowed_in_stream()
        {
            self.pass_bound(frame, node, |offset| at.offset_bound(offset));
        }
        match (call, flow) {
            (CallReason::Close, _) => self.closed(frame, node),
            (_, Flow::Stop) => {
                if !plan.is_source() {
                    self.stop_sources(frame);
                }
                if self.nodes[node].stop() {
                    self.call(frame, node, CallReason::Close);
                }
            }
            (CallReason::Inputs(at), Flow::Continue)
                if !self.nodes[node].has_events()
                    && self.nodes[node]
                        .intake
                        .is_exhausted(self.queues.node_queues(&plan.inputs), at) => {}
            (_, Flow::Continue) => {
                self.nodes.look_at(node as u16);
                self.resume(frame, node);
            }
        }
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
            Emission::Pause { input, paused } => {
                self.queues[plan.inputs.start + usize::from(input)].pause(paused);
                Ok(())
            }
            Emission::Side { output, packet } => self.set_side(
                frame,
                plan.side_outputs[usize::from(output)] as usize,
                packet,
            ),
        }
    }
}

/// Sorts the output of a call by stream, and appends to each stream the bound that follows from the
/// call.
fn order_by_stream(plan: &PlanNode, call: CallReason, flow: Flow, emits: &mut Emits) {
    for (output, offset) in plan.offsets.iter().enumerate() {
        let output = output as u16;
        match (call, flow, offset) {
            (CallReason::Close, ..) => emits.list.push(Emission::Close { output }),
            (CallReason::Inputs(at), Flow::Continue, Some(offset)) if at.is_allowed_in_stream() => {
                let at = at.offset_bound(*offset);
                emits.list.push(Emission::AtLeast { output, at });
            }
            _ => {}
        }
    }
    emits.list.sort_by_key(Emission::stream);
}
