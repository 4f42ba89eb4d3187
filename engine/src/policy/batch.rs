//! Batches: like the default policy, but input sets are delivered in batches. The node waits until
//! a batch is complete and then gets one set per call. An incomplete batch is delivered when the
//! inputs are done.

use smallvec::SmallVec;

use crate::{
    input::{InputQueue, InputSet},
    timestamp::Timestamp,
};

use super::{InputPolicy, Readiness, default::fill};

pub(super) struct Batches {
    size: usize,
    /// Number of sets of the current batch that are not delivered yet.
    left: usize,
}

impl Batches {
    pub(super) fn new(size: usize) -> Self {
        Self { size, left: 0 }
    }

    /// Returns `true` if `size` timestamps with packets are settled.
    fn is_complete(&self, queues: &[InputQueue], settled: Timestamp) -> bool {
        if queues.iter().map(InputQueue::len).sum::<usize>() < self.size {
            return false;
        }
        let times = queues.iter().map(|queue| queue.times().peekable());
        let mut times: SmallVec<[_; 4]> = times.collect();
        for _ in 0..self.size {
            let heads = times.iter_mut().filter_map(|times| times.peek().copied());
            let Some(next) = heads.min().filter(|&next| next < settled) else {
                return false;
            };
            for times in &mut times {
                times.next_if_eq(&next);
            }
        }
        true
    }
}

impl InputPolicy for Batches {
    fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        let bounds = queues.iter().map(InputQueue::bound).enumerate();
        let slowest = bounds.min_by_key(|(_, bound)| *bound);
        let (laggard, settled) = slowest.unwrap_or((0, Timestamp::DONE));
        let first = queues.iter().filter_map(InputQueue::head).min();
        let done = settled >= Timestamp::ONE_OVER_POST_STREAM;
        match first {
            None if done => Readiness::Close,
            Some(first) if self.left > 0 || done || self.is_complete(queues, settled) => {
                Readiness::Process(first)
            }
            _ => Readiness::wait(laggard, first.map_or(settled, |first| first.min(settled))),
        }
    }

    fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
        self.left = self.left.checked_sub(1).unwrap_or(self.size - 1);
        fill(at, queues, set);
    }
}
