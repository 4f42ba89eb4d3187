//! Calls that outlast the function that starts them: on executors, and of async nodes.
//!
//! A call on an executor takes the node with it and returns it through the inbox. A call of an
//! async node is a future, which the session polls when its waker asks for it. A node with
//! independent calls may have several in progress, each with its own instance. Their output leaves
//! the node in the order of the calls.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{calculator::erased::Instance, emits::Emits, timestamp::Timestamp};

use super::{
    guard::{CallReason, guarded},
    message::{NodeReturn, SessionMessage},
    running::Running,
    shared::Frame,
};

impl Running {
    /// Takes an instance of a node and a slot for a call outside the session's task.
    fn depart(
        &mut self,
        frame: Frame<'_>,
        node: usize,
        call: CallReason,
    ) -> Option<(Instance, u16)> {
        let spare = self.nodes[node].take_instance().map(Ok);
        let instance = match spare.unwrap_or_else(|| self.open_another(frame, node)) {
            Ok(instance) => instance,
            Err(error) => {
                self.fail(frame, node, error);
                return None;
            }
        };
        let now = self.timer.read;
        let slot = self.nodes[node].depart(&frame.plan.nodes[node], call, now);
        self.nodes.look_at(node as u16);
        self.in_flight.calls += 1;
        Some((instance, slot))
    }

    /// Applies the effects of ended calls, up to the first call that has not ended.
    fn arrived(&mut self, frame: Frame<'_>, node: usize) {
        self.in_flight.calls -= 1;
        while self.failed.is_none()
            && let Some((call, flow, mut emits)) = self.nodes[node].next_answer()
        {
            self.finish(frame, node, call, flow, &mut emits);
        }
        self.nodes.look_at(node as u16);
        if self.nodes[node].has_stopped() {
            self.call(frame, node, CallReason::Close);
        }
    }

    /// Calls a node on an executor.
    pub(super) fn offload(
        &mut self,
        frame: Frame<'_>,
        node: usize,
        executor: usize,
        call: CallReason,
        free: Timestamp,
    ) {
        let executor = &frame.plan.executors[executor];
        let tenant = frame.shared.run.tenant.as_ref();
        let ready = match call {
            CallReason::Close => executor.start(),
            _ => self.in_flight.admit(executor, tenant),
        };
        if let Err(refusal) = ready {
            self.fail(frame, node, refusal);
            return;
        }
        let Some((Instance::Sync(mut instance), slot)) = self.depart(frame, node, call) else {
            return;
        };
        let plan = &frame.plan.nodes[node];
        let inputs = if plan.lanes > 1 { plan.inputs.len() } else { 0 };
        let mut set = self.nodes[node].take_set(inputs);
        let (plan, shared) = (Arc::clone(frame.plan), Arc::clone(frame.shared));
        let job = executor.spawn(
            tenant,
            Box::new(move || {
                // A session that is gone needs no result.
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
                let site = frame.site(node);
                let flow = guarded(site, &mut *instance, &mut set, &mut emits, call);
                let returned = NodeReturn {
                    slot,
                    node: instance,
                    set,
                    emits,
                    flow,
                    time: started.elapsed(),
                };
                let message = SessionMessage::Returned {
                    node: node as u16,
                    returned: Box::new(returned),
                };
                // If the session has ended meanwhile, this drops the node.
                drop(shared.send(message));
            }),
        );
        self.nodes[node].away_mut().given(slot, job);
    }

    /// Takes a node back from its executor.
    pub(super) fn returned(&mut self, frame: Frame<'_>, node: usize, returned: NodeReturn) {
        let now = self.timer.read;
        let (slot, took) = (returned.slot, returned.time);
        self.record_away(node, slot, Some(took));
        self.nodes[node].returned(returned, now);
        self.arrived(frame, node);
    }

    /// Records an ended call in the timeline. `took` is the node's computing time, if it is known.
    fn record_away(&mut self, node: usize, slot: u16, took: Option<Duration>) {
        if let Some(recorder) = &mut self.recorder
            && let Some(away) = self.nodes[node].away.as_deref()
        {
            let (call, began) = away.call(slot);
            let now = Instant::now();
            let took = took.unwrap_or_else(|| now.saturating_duration_since(began));
            recorder.called(node, call, now.checked_sub(took).unwrap_or(began), took);
        }
    }

    /// Starts a call of an async node.
    pub(super) fn start_async(
        &mut self,
        frame: Frame<'_>,
        node: usize,
        call: CallReason,
        free: Timestamp,
    ) {
        let Some((Instance::Async(instance), slot)) = self.depart(frame, node, call) else {
            return;
        };
        let set = self.nodes[node].take_set(frame.plan.nodes[node].inputs.len());
        let mut emits = Emits::default();
        emits.start(free);
        let away = self.nodes[node].away_mut();
        emits.call = Some(away.async_call(frame.shared, node as u16, slot));
        away.start(slot, instance.process(set, emits));
        self.poll_future(frame, node, slot);
    }

    /// Polls a call of an async node.
    pub(super) fn poll_future(&mut self, frame: Frame<'_>, node: usize, slot: u16) {
        frame.shared.enter(node);
        let state = &mut self.nodes[node];
        match state.poll(slot, &mut self.timer) {
            None => {}
            Some(Ok(returned)) => {
                self.record_away(node, slot, None);
                let state = &mut self.nodes[node];
                let flow = returned.flow.map_err(Box::new);
                state.arrive(slot, Instance::Async(returned.node), flow, returned.out);
                self.arrived(frame, node);
            }
            Some(Err(error)) => self.fail(frame, node, error),
        }
    }
}
