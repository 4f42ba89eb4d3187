//! Mux: the last input selects, at each of its timestamps, the other input that is delivered with
//! it.
//!
//! Packets of the other inputs up to that timestamp are dropped. A number out of range selects no
//! input; the calculator reports it.

use crate::{
    input::{InputQueue, InputSet},
    packet::Packet,
    timestamp::Timestamp,
};

use super::{InputPolicy, Readiness};

pub(super) struct Mux;

fn selected(control: &Packet) -> Option<usize> {
    let number = control.get::<i32>().map(|&number| i64::from(number));
    usize::try_from(number.or_else(|| control.get::<i64>().copied())?).ok()
}

impl InputPolicy for Mux {
    fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        let Some((control, data)) = queues.split_last() else {
            return Readiness::Close;
        };
        let Some(packet) = control.front() else {
            return match control.bound() {
                Timestamp::DONE | Timestamp::ONE_OVER_POST_STREAM => Readiness::Close,
                bound => Readiness::wait(data.len(), bound),
            };
        };
        let at = packet.time;
        let choice = selected(packet).filter(|&choice| choice < data.len());
        match choice {
            Some(choice) if data[choice].is_empty() && data[choice].bound() <= at => {
                Readiness::wait(choice, at)
            }
            Some(_) | None => Readiness::Process(at),
        }
    }

    fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
        let Some((control, data)) = queues.split_last_mut() else {
            return;
        };
        let choice = control.front().and_then(selected);
        set.fill(data.len(), control, at);
        for (input, queue) in data.iter_mut().enumerate() {
            if choice == Some(input) {
                set.fill(input, queue, at);
            } else {
                queue.drop_before(at.next());
                set.hold_back(input, queue);
            }
        }
    }
}
