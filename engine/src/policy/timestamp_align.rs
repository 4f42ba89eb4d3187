//! Timestamp alignment: timelines with different starts are shifted so that their first packets
//! meet.
//!
//! Until every other input has a packet, packets of the base input are delivered alone. The first
//! call with all inputs fixes the shift of each input. Later calls follow the default policy on
//! shifted time, and packets carry the base's time.

use crate::{
    input::{InputQueue, InputSet},
    timestamp::Timestamp,
};

use super::{InputPolicy, Readiness};

pub(super) struct TimestampAlign {
    base: usize,
    /// Difference between the base's time and that of each input, once known.
    shifts: Option<Vec<i64>>,
}

impl TimestampAlign {
    pub(super) fn new(base: usize) -> Self {
        Self { base, shifts: None }
    }

    fn waiting_for_base(&self, queues: &[InputQueue]) -> Readiness {
        let base = &queues[self.base];
        match base.head() {
            Some(head) => Readiness::Process(head),
            None if base.bound() >= Timestamp::ONE_OVER_POST_STREAM => Readiness::Close,
            None => Readiness::wait(self.base, base.bound()),
        }
    }
}

impl InputPolicy for TimestampAlign {
    fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        let Some(shifts) = &self.shifts else {
            return self.waiting_for_base(queues);
        };
        let (mut bound, mut packet, mut laggard) = (Timestamp::DONE, Timestamp::DONE, 0);
        for (input, (queue, &shift)) in queues.iter().zip(shifts).enumerate() {
            let time = queue.head_or_bound().shift(shift);
            if queue.is_empty() {
                if time < bound {
                    (bound, laggard) = (time, input);
                }
            } else {
                packet = packet.min(time);
            }
        }
        let first = bound.min(packet);
        if first >= Timestamp::ONE_OVER_POST_STREAM {
            Readiness::Close
        } else if bound > packet {
            Readiness::Process(packet)
        } else {
            Readiness::wait(laggard, first)
        }
    }

    fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
        if self.shifts.is_none() {
            let heads: Option<Vec<Timestamp>> = queues.iter().map(InputQueue::head).collect();
            self.shifts = heads.map(|heads| heads.into_iter().map(|head| at - head).collect());
        }
        let Some(shifts) = &self.shifts else {
            for (input, queue) in queues.iter_mut().enumerate() {
                if input == self.base {
                    set.fill(input, queue, at);
                } else {
                    set.hold_back(input, queue);
                }
            }
            return;
        };
        for (input, (queue, &shift)) in queues.iter_mut().zip(shifts).enumerate() {
            match queue.pop_at(at.shift(-shift)) {
                Some(packet) => set.put(input, packet.at(at)),
                None => set.hold_back(input, queue),
            }
        }
    }
}
