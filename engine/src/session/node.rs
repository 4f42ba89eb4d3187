//! One node of a session: its state, its wait, and the cost of its calls.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{
    calculator::erased::{AsyncReturn, CallResult, Instance},
    calculator::{ANY_EVENT, Flow},
    context::{Cx, Site},
    emits::Emits,
    error::{Error, Result},
    input::{Event, InputQueue, InputSet},
    plan::PlanNode,
    policy::Readiness,
    timestamp::Timestamp,
};

use super::{
    away::Away,
    guard::{CallReason, catch, guarded},
    intake::Intake,
    message,
    summary::Counts,
    timer::Timer,
};

/// The state of a node.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Waiting for its side packets or for the nodes before it.
    Unopened,
    Open,
    /// In the maximum number of calls outside the session's task.
    Busy,
    Closed,
}

pub(super) struct NodeState {
    pub(super) status: Status,
    /// The node itself; absent before it opens, after it closes, and during calls on an executor.
    pub(super) instance: Option<Instance>,
    pub(super) intake: Intake,
    events: VecDeque<Event>,
    /// Number of holds. Briefly negative if a call on an executor makes and drops a hold, because
    /// the drop is reported before the end of the call.
    holds: i32,
    /// Number of full queues that its outputs feed. It does not run while there is one.
    full_edges: u16,
    /// Calls outside the session's task; present since the first one.
    pub(super) away: Option<Box<Away>>,
    runs: u64,
    time: Duration,
    /// Start of the first call.
    first: Option<Instant>,
    /// End of the last call, or start of the poll that contained the end.
    pub(super) since: Option<Instant>,
}

impl NodeState {
    pub(super) fn new(plan: &PlanNode) -> Self {
        Self {
            status: Status::Unopened,
            instance: None,
            intake: Intake::new(plan),
            events: VecDeque::new(),
            holds: 0,
            full_edges: 0,
            away: None,
            runs: 0,
            time: Duration::ZERO,
            first: None,
            since: None,
        }
    }

    /// Returns `true` if the session may call the node once it is ready.
    #[inline]
    pub(super) fn is_callable(&self) -> bool {
        self.status == Status::Open && !self.away.as_ref().is_some_and(|away| away.stopped)
    }

    /// Returns the number of calls, their duration, and the time of the first and last one.
    pub(super) fn counts(&self) -> Counts {
        Counts {
            runs: self.runs,
            time: self.time,
            called: self.first.zip(self.since),
        }
    }
}

/// Methods for opening and closing.
impl NodeState {
    pub(super) fn open(&mut self, instance: Instance) {
        self.instance = Some(instance);
        self.status = Status::Open;
    }

    /// Drops the node. Fails if a destructor panics.
    pub(super) fn close(&mut self) -> Result<()> {
        self.status = Status::Closed;
        let (events, instance) = (std::mem::take(&mut self.events), self.instance.take());
        catch(move || drop((events, instance)))
    }

    /// Closes an open node at the end of the session. A node on an executor is not called.
    pub(super) fn close_at_end(&mut self, site: Site<'_>, out: &mut Emits) -> CallResult<()> {
        self.status = Status::Closed;
        let Some(mut instance) = self.instance.take() else {
            return Ok(());
        };
        self.runs += 1;
        self.intake.set.clear();
        self.intake.set.set_time(Timestamp::DONE);
        let set = &mut self.intake.set;
        catch(move || {
            let mut cx = Cx { site, set, out };
            match &mut instance {
                Instance::Sync(node) => node.close(&mut cx),
                Instance::Async(node) => node.close(&mut cx),
            }
        })?
    }

    /// Adds the holds made by a call.
    #[inline]
    pub(super) fn hold(&mut self, holds: u32) {
        self.holds += holds as i32;
    }

    pub(super) fn release(&mut self) {
        self.holds -= 1;
    }

    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.holds > 0
    }

    /// Describes the outside event that an open, held node waits for; `None` if only its inputs can
    /// make it continue.
    pub(super) fn waits_for(&self) -> Option<String> {
        let said = match &self.instance {
            Some(Instance::Sync(node)) => catch(|| node.waits_for()).ok(),
            Some(Instance::Async(_)) | None => None,
        };
        said.unwrap_or_else(|| Some(ANY_EVENT.to_owned()))
    }
}

/// Methods that decide whether and for what the node is called.
impl NodeState {
    /// Updates the number of full queues after one has become full or has room again.
    pub(super) fn edge_changed(&mut self, full: bool) {
        if full {
            self.full_edges += 1;
        } else {
            self.full_edges -= 1;
        }
    }

    /// Returns `true` if no queue that it feeds is full.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.full_edges == 0
    }

    /// Queues an event for the next call. Returns `false` if the node is closed.
    pub(super) fn add_event(&mut self, event: Event) -> bool {
        let open = self.status != Status::Closed;
        if open {
            self.events.push_back(event);
        }
        open
    }

    /// Moves the next event, if any, and the settled timestamps of the inputs into the input set.
    /// Returns `true` if there was an event.
    #[inline]
    pub(super) fn take_event(&mut self, queues: &[InputQueue]) -> bool {
        let event = self.events.pop_front();
        let taken = event.is_some();
        if let Some(event) = event {
            for (input, queue) in queues.iter().enumerate() {
                self.intake.set.hold_back(input, queue);
            }
            self.intake.set.set_event(event);
        }
        taken
    }

    #[inline]
    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns `true` if at most full queues keep the node from running.
    pub(super) fn would_run(&self, plan: &PlanNode, queues: &[InputQueue]) -> bool {
        plan.is_source()
            || self.has_events()
            || (!plan.inputs.is_empty()
                && !matches!(self.intake.readiness(queues), Readiness::Waiting(_)))
    }
}

/// Methods for calls in the session's own task.
impl NodeState {
    /// Sets the timestamp of the input set for a call. `free` is the first free timestamp of the
    /// outputs.
    #[inline]
    pub(super) fn set_time(&mut self, call: CallReason, free: Timestamp) {
        self.intake.set.set_time(match call {
            CallReason::Inputs(at) => at,
            CallReason::Event => free,
            CallReason::Source => Timestamp::ZERO,
            CallReason::Close => Timestamp::DONE,
        });
    }

    /// Calls the node here and counts the call. Async nodes are only closed this way.
    #[inline]
    pub(super) fn call(
        &mut self,
        site: Site<'_>,
        out: &mut Emits,
        call: CallReason,
        timer: &mut Timer,
    ) -> CallResult<Flow> {
        timer.before(self.runs);
        let set = &mut self.intake.set;
        let flow = match &mut self.instance {
            Some(Instance::Sync(node)) => guarded(site, &mut **node, set, out, call),
            Some(Instance::Async(node)) => {
                let closed = catch(|| node.close(&mut Cx { site, set, out }));
                closed
                    .unwrap_or_else(|panic| Err(panic.into()))
                    .map(|()| Flow::Stop)
            }
            None => Ok(Flow::Stop),
        };
        self.charge(timer);
        self.runs += 1;
        flow
    }

    /// Adds the duration of a call that has just ended.
    #[inline]
    fn charge(&mut self, timer: &mut Timer) {
        if let Some(time) = timer.after(self.runs) {
            self.time += time;
            if self.first.is_none() {
                self.first = timer.read.checked_sub(time);
            }
        }
        self.since = Some(timer.read);
    }

    /// Empties the input set after a call and adds the holds that the call made.
    #[inline]
    pub(super) fn call_over(&mut self, holds: u32) {
        self.intake.set.clear();
        self.hold(holds);
    }
}

/// Methods for calls outside the session's task.
impl NodeState {
    #[inline]
    pub(super) fn is_away(&self) -> bool {
        self.away.as_ref().is_some_and(|away| away.calls() > 0)
    }

    /// Takes a free instance for a call.
    pub(super) fn take_instance(&mut self) -> Option<Instance> {
        let away = self.away.get_or_insert_default();
        self.instance.take().or_else(|| away.spare.pop())
    }

    /// Takes a slot for a call that starts at `now`.
    pub(super) fn depart(&mut self, plan: &PlanNode, call: CallReason, now: Instant) -> u16 {
        let away = self.away.get_or_insert_default();
        let slot = away.begin(call, now);
        if away.calls() >= usize::from(plan.lanes) || call == CallReason::Close {
            self.status = Status::Busy;
        }
        self.runs += 1;
        self.first.get_or_insert(now);
        self.since = Some(now);
        slot
    }

    /// Takes the input set for a call and replaces it with an empty one for `inputs` inputs.
    pub(super) fn take_set(&mut self, inputs: usize) -> InputSet {
        std::mem::replace(&mut self.intake.set, InputSet::new(inputs))
    }

    /// Returns the calls outside the session's task, to add to one that has departed.
    pub(super) fn away_mut(&mut self) -> &mut Away {
        self.away.get_or_insert_default()
    }

    /// Polls the call in a slot, and counts the call once it has ended.
    pub(super) fn poll(
        &mut self,
        slot: u16,
        timer: &mut Timer,
    ) -> Option<Result<AsyncReturn, Error>> {
        let away = self.away.as_mut()?;
        timer.before(self.runs);
        let polled = away.poll(slot)?;
        if polled.is_ok() {
            self.charge(timer);
        }
        Some(polled)
    }

    /// Takes the node back from an executor and counts the call.
    pub(super) fn returned(&mut self, returned: message::NodeReturn, now: Instant) {
        self.intake.set = returned.set;
        self.time += returned.time;
        self.since = Some(now);
        let instance = Instance::Sync(returned.node);
        self.arrive(returned.slot, instance, returned.flow, returned.emits);
    }

    /// Takes an instance back with the result of its call.
    pub(super) fn arrive(
        &mut self,
        slot: u16,
        instance: Instance,
        flow: CallResult<Flow>,
        emits: Emits,
    ) {
        let away = self.away.get_or_insert_default();
        match &self.instance {
            None => self.instance = Some(instance),
            Some(_) => away.spare.push(instance),
        }
        self.status = Status::Open;
        away.finish(slot, flow, emits);
    }

    /// Takes the result of the earliest call in progress, if it has ended.
    pub(super) fn next_answer(&mut self) -> Option<(CallReason, CallResult<Flow>, Emits)> {
        self.away.as_mut()?.next()
    }

    /// Prepares to close the node. Returns `false` if calls must end first.
    pub(super) fn stop(&mut self) -> bool {
        match &mut self.away {
            Some(away) if away.calls() > 0 => {
                away.stopped = true;
                false
            }
            _ => true,
        }
    }

    /// Returns `true` if the node has stopped and its last call has ended.
    pub(super) fn has_stopped(&self) -> bool {
        let away = self.away.as_ref();
        self.status == Status::Open && away.is_some_and(|away| away.stopped && away.calls() == 0)
    }
}
