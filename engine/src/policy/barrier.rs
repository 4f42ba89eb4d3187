//! Barrier: one packet of each input, whatever their timestamps. The call has the smallest of them.

use crate::{
    input::{InputQueue, InputSet},
    timestamp::Timestamp,
};

use super::{InputPolicy, Readiness};

pub(super) struct Barrier;

impl InputPolicy for Barrier {
    fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        if queues.iter().any(InputQueue::is_done) {
            return Readiness::Close;
        }
        if let Some(stream) = queues.iter().position(InputQueue::is_empty) {
            // Timestamps have no meaning here, so nothing is settled.
            return Readiness::wait(stream, Timestamp::UNSET);
        }
        let first = queues.iter().filter_map(InputQueue::head).min();
        first.map_or(Readiness::Close, Readiness::Process)
    }

    fn fill(&mut self, _: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
        for (input, queue) in queues.iter_mut().enumerate() {
            if let Some(packet) = queue.pop() {
                set.put(input, packet);
            }
        }
    }

    fn timed(&self) -> bool {
        false
    }
}
