//! The intake of a node: when it takes packets from its queues, and the input set of its next call.

use crate::{
    input::{InputQueue, InputSet},
    plan::PlanNode,
    policy::{Policy, Readiness, Rule, Waiting},
    timestamp::Timestamp,
};

pub(super) struct Intake {
    policy: Rule,
    time: Time,
    timed: bool,
    /// Position of the only input whose change can make the node ready; [`ANY`] if it is unknown.
    laggard: u16,
    pub(super) set: InputSet,
}

/// The time at which a node takes the inputs of its next call from the queues.
///
/// Nodes take them when they are called, with one exception: a node with the immediate policy takes
/// them on arrival. Packets that arrive between this and the call are for the next call.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Time {
    /// Inputs are taken when the node is called.
    Call,
    /// Inputs are taken on arrival.
    Arrival,
    /// Inputs are taken on arrival, after the node has opened and its call has ended.
    Later,
    /// Inputs are in the input set, for this timestamp.
    Taken(Timestamp),
}

/// Laggard of a node that any of its inputs can make ready.
const ANY: u16 = u16::MAX;

impl Intake {
    pub(super) fn new(plan: &PlanNode) -> Self {
        let policy = plan.policy.build(plan.inputs.len(), plan.bounds);
        Self {
            timed: policy.timed(),
            policy,
            time: match plan.policy {
                Policy::Immediate => Time::Later,
                _ => Time::Call,
            },
            laggard: ANY,
            set: InputSet::new(plan.inputs.len()),
        }
    }

    /// Returns `true` if packets must arrive in the order of their timestamps.
    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        self.timed
    }

    /// Decides whether the node can be called. Once it has taken its inputs, it can.
    #[inline]
    pub(super) fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        match self.time {
            Time::Taken(at) => Readiness::Process(at),
            Time::Call | Time::Arrival | Time::Later => self.policy.readiness(queues),
        }
    }

    /// Returns the node's waits, any of which can lead to a call.
    pub(super) fn waits_for(&self, queues: &[InputQueue]) -> Vec<Waiting> {
        self.policy.waits_for(queues)
    }

    /// Records the input whose bound must move before the node can be ready.
    #[inline]
    pub(super) fn wait_for(&mut self, input: u16) {
        if self.policy.waits_for_laggard() {
            self.laggard = input;
        }
    }

    /// Returns `true` if a change of this input can make the node ready.
    #[inline]
    pub(super) fn may_wait_for(&self, input: usize) -> bool {
        self.laggard == ANY || usize::from(self.laggard) == input
    }

    /// Returns `true` if a node that was called for `at` can be ready again only after its input
    /// changes. Decides without the policy for nodes with one input, which are the majority.
    #[inline]
    pub(super) fn is_exhausted(&self, queues: &[InputQueue], at: Timestamp) -> bool {
        let [queue] = queues else {
            return false;
        };
        let next = at.next();
        self.policy.waits_for_laggard()
            && queue.is_empty()
            && queue.bound() == next
            && next.is_range()
    }

    /// Informs the policy of a packet. Returns `true` if the policy may have changed the queues.
    #[inline]
    pub(super) fn arrived(&mut self, queues: &mut [InputQueue]) -> bool {
        self.policy.arrived(queues)
    }

    /// Fills the input set for the call at `at`. Returns `false` if that was done on arrival.
    #[inline]
    pub(super) fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue]) -> bool {
        if let Time::Taken(_) = self.time {
            self.time = Time::Later;
            return false;
        }
        self.laggard = ANY;
        self.policy.fill(at, queues, &mut self.set);
        true
    }

    /// Returns `true` if the node takes its inputs on the next arrival.
    #[inline]
    pub(super) fn is_on_arrival(&self) -> bool {
        self.time == Time::Arrival
    }

    /// Fills the input set on arrival. Returns `false` if the node is not ready.
    pub(super) fn fill_on_arrival(&mut self, queues: &mut [InputQueue]) -> bool {
        let Readiness::Process(at) = self.policy.readiness(queues) else {
            return false;
        };
        self.policy.fill(at, queues, &mut self.set);
        self.time = Time::Taken(at);
        true
    }

    /// Prepares for the next call, after the node has opened or a call has ended. Returns `true` if
    /// it takes its inputs on arrival from now on.
    #[inline]
    pub(super) fn resume(&mut self) -> bool {
        let resumes = self.time == Time::Later;
        if resumes {
            self.time = Time::Arrival;
        }
        resumes
    }
}
