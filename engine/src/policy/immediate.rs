//! The immediate policy: each input is a set of its own, so a packet is delivered on arrival.
//!
//! Inputs that are ready at the same timestamp are delivered together. The timestamps of calls may
//! decrease. When one input is done while others continue, there is one more call without packets,
//! so that the node can notice.

use crate::{
    input::{InputQueue, InputSet},
    timestamp::Timestamp,
};

use super::{InputPolicy, Readiness, Waiting, settle::SettledTime};

pub(super) struct Immediate {
    inputs: Vec<ImmediateInput>,
}

struct ImmediateInput {
    settled: SettledTime,
    /// Set once the node has been called after the input was done.
    done_seen: bool,
}

impl Immediate {
    pub(super) fn new(inputs: usize, bounds: bool) -> Self {
        let input = || ImmediateInput {
            settled: SettledTime::new(bounds),
            done_seen: false,
        };
        Self {
            inputs: std::iter::repeat_with(input).take(inputs).collect(),
        }
    }

    /// Decides from one input whether the node can be called. An input that is done leads to a
    /// call; in bounds mode this call is at the end of its timeline.
    fn input_readiness(&self, input: usize, queues: &[InputQueue]) -> Readiness {
        let state = &self.inputs[input];
        match state.settled.readiness(queues, std::iter::once(input)) {
            Readiness::Close if state.settled.with_bounds() && !state.done_seen => {
                Readiness::Process(Timestamp::MAX)
            }
            readiness => readiness,
        }
    }
}

/// Returns `true` if no packet waits and none can arrive.
fn is_over(queue: &InputQueue) -> bool {
    queue.is_empty() && queue.bound() >= Timestamp::ONE_OVER_POST_STREAM
}

impl InputPolicy for Immediate {
    fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        let (mut ready, mut newly_done) = (None, false);
        let mut waiting: Option<Waiting> = None;
        let mut all_done = true;
        for (input, state) in self.inputs.iter().enumerate() {
            let done = is_over(&queues[input]);
            all_done &= done;
            newly_done |= done && !state.done_seen;
            match self.input_readiness(input, queues) {
                Readiness::Process(at) => {
                    ready = Some(ready.map_or(at, |first: Timestamp| first.min(at)));
                }
                Readiness::Waiting(new) if waiting.is_none_or(|old| new.until < old.until) => {
                    waiting = Some(new);
                }
                Readiness::Waiting(_) | Readiness::Close => {}
            }
        }
        match (ready, waiting) {
            (Some(at), _) => Readiness::Process(at),
            _ if all_done => Readiness::Close,
            (None, Some(waiting)) if newly_done => Readiness::Process(waiting.until),
            (None, Some(waiting)) => Readiness::Waiting(waiting),
            (None, None) => Readiness::Close,
        }
    }

    fn waits_for(&self, queues: &[InputQueue]) -> Vec<Waiting> {
        let inputs = (0..self.inputs.len()).map(|input| self.input_readiness(input, queues));
        inputs.filter_map(Readiness::waiting).collect()
    }

    fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
        for input in 0..self.inputs.len() {
            let ready = self.input_readiness(input, queues) == Readiness::Process(at);
            let done = is_over(&queues[input]);
            self.inputs[input].done_seen |= done;
            if ready {
                set.fill(input, &mut queues[input], at);
                self.inputs[input].settled.reached(at);
            } else {
                set.hold_back(input, &queues[input]);
            }
        }
    }
}
