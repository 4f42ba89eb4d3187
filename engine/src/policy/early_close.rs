//! Early close: like the default policy, but the node closes as soon as any input is done and
//! empty. For loops, in which the looped input cannot close before the node does.

use crate::{
    input::{InputQueue, InputSet},
    timestamp::Timestamp,
};

use super::{InputPolicy, Readiness, default::fill, settle::SettledTime};

pub(super) struct EarlyClose(SettledTime);

impl EarlyClose {
    pub(super) fn new(bounds: bool) -> Self {
        Self(SettledTime::new(bounds))
    }
}

impl InputPolicy for EarlyClose {
    fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        if queues.iter().any(InputQueue::is_done) {
            return Readiness::Close;
        }
        self.0.readiness(queues, 0..queues.len())
    }

    fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
        self.0.reached(at);
        fill(at, queues, set);
    }
}
