//! When a node takes packets out of its queues, and the input set of its next call.

use crate::{
    input::{InputQueue, InputSet},
    plan::PlanNode,
    policy::{Policy, Readiness, Rule, Waiting},
    timestamp::Timestamp,
};

/// What one node takes in.
pub(super) struct Intake {
    policy: Rule,
    time: Time,
    timed: bool,
    /// The one input, counted within the node, that has to change before the node is due; [`ANY`]
    /// if it is not known.
    laggard: u16,
    pub(super) set: InputSet,
}

/// When a node takes the inputs of its next call out of the queues.
///
/// As a rule when it is called, but a node with the Immediate policy takes what is there as soon as
/// something arrives. What arrives between that and its call comes with the next one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Time {
    /// When it is called.
    Call,
    /// When something arrives.
    Arrival,
    /// When something arrives, once the node is open and its call is over.
    Later,
    /// They are in its input set, at this timestamp.
    Taken(Timestamp),
}

/// The laggard of a node that may be due after a change of any of its inputs.
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

    /// Whether packets have to arrive in the order of their timestamps.
    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        self.timed
    }

    /// Whether the node can be called: that it can is settled once it has taken its inputs.
    #[inline]
    pub(super) fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        match self.time {
            Time::Taken(at) => Readiness::Process(at),
            Time::Call | Time::Arrival | Time::Later => self.policy.readiness(queues),
        }
    }

    /// Lists the node's waits, any of which can bring about a call.
    pub(super) fn waits_for(&self, queues: &[InputQueue]) -> Vec<Waiting> {
        self.policy.waits_for(queues)
    }

    /// Notes the input whose bound has to move before the node is due.
    #[inline]
    pub(super) fn wait_for(&mut self, input: u16) {
        if self.policy.waits_for_laggard() {
            self.laggard = input;
        }
    }

    /// Whether a change of this input may make the node due.
    #[inline]
    pub(super) fn may_wait_for(&self, input: usize) -> bool {
        self.laggard == ANY || usize::from(self.laggard) == input
    }

    /// Whether a node that was called for `at` can only be due again after its input changes.
    /// Decided without a look at its policy for the nodes that make most of a graph, those with one
    /// input.
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

    /// Tells the policy that a packet has arrived. True if that may have changed any of the queues.
    #[inline]
    pub(super) fn arrived(&mut self, queues: &mut [InputQueue]) -> bool {
        self.policy.arrived(queues)
    }

    /// Fills the input set for the call at `at`. False if that was done on arrival.
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

    /// Whether the node takes its inputs as soon as something arrives.
    #[inline]
    pub(super) fn is_on_arrival(&self) -> bool {
        self.time == Time::Arrival
    }

    /// Fills the input set with what has arrived. False if there is no call in it.
    pub(super) fn fill_on_arrival(&mut self, queues: &mut [InputQueue]) -> bool {
        let Readiness::Process(at) = self.policy.readiness(queues) else {
            return false;
        };
        self.policy.fill(at, queues, &mut self.set);
        self.time = Time::Taken(at);
        true
    }

    /// The node has opened, or its call is over. True if from now on it takes its inputs on
    /// arrival.
    #[inline]
    pub(super) fn resume(&mut self) -> bool {
        let resumes = self.time == Time::Later;
        if resumes {
            self.time = Time::Arrival;
        }
        resumes
    }
}
