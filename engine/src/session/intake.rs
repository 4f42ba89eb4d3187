//! When the packets of a call leave the queues: as a rule when the node is called, but a node with the Immediate policy takes
//! what is there as soon as something arrives. What arrives between that and its call comes with the next one.

use crate::{input::InputQueue, policy::Readiness, timestamp::Timestamp};

use super::running::{Frame, NodeState, Running, Status};

/// When a node takes the inputs of its next call.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Intake {
    /// When it is called.
    OnCall,
    /// When something arrives.
    OnArrival,
    /// As [`Self::OnArrival`], once the node is open and its call is over.
    Later,
    /// They are in its input set, at this timestamp.
    Taken(Timestamp),
}

impl NodeState {
    /// Whether the node can be called: that it can is settled once it has taken its inputs.
    #[inline]
    pub(super) fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        match self.intake {
            Intake::Taken(at) => Readiness::Process(at),
            Intake::OnCall | Intake::OnArrival | Intake::Later => self.policy.readiness(queues),
        }
    }
}

impl Running {
    /// Fills the input set of a node for the call at `at`.
    #[inline]
    pub(super) fn fill(&mut self, frame: Frame<'_>, node: usize, at: Timestamp) {
        let inputs = &frame.plan.nodes[node].inputs;
        let state = &mut self.nodes[node];
        if let Intake::Taken(_) = state.intake {
            state.intake = Intake::Later;
            return;
        }
        state
            .policy
            .fill(at, &mut self.queues[inputs.clone()], &mut state.set);
        for input in inputs.clone() {
            if self.limits[input].full {
                self.refresh(frame, input);
            }
        }
    }

    /// Something has arrived at a node that takes its inputs then.
    pub(super) fn take(&mut self, frame: Frame<'_>, node: usize) {
        let state = &self.nodes[node];
        let queues = &self.queues[frame.plan.nodes[node].inputs.clone()];
        if state.intake == Intake::OnArrival
            && state.status == Status::Open
            && !state.is_away()
            && let Readiness::Process(at) = state.policy.readiness(queues)
        {
            self.fill(frame, node, at);
            self.nodes[node].intake = Intake::Taken(at);
        }
    }

    /// A node has opened, or its call is over: if it takes its inputs on arrival, it does so again.
    #[inline]
    pub(super) fn resume(&mut self, frame: Frame<'_>, node: usize) {
        if self.nodes[node].intake == Intake::Later {
            self.nodes[node].intake = Intake::OnArrival;
            self.take(frame, node);
        }
    }
}
