//! The sequences that wait for a slot: their order and their maximum waiting time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;

use super::delivery::Outbox;
use super::queue_pace::Drain;
use super::sequence::Sequence;
use super::status::EngineState;
use crate::protocol::{ErrorKind, FinishReason, GenerationError, SequenceId};
use crate::schedule::Row;
use crate::schedule::turns::{Owner, queue_again};
use crate::settings::LlmEngineSpec;

/// The sequences that wait for a slot.
pub(super) struct Queue {
    shared: Arc<EngineState>,
    /// Sequences in order of arrival.
    waiting: VecDeque<Sequence>,
    /// Maximum time until a sequence's first admission; `None` for no limit.
    timeout: Option<Duration>,
    /// Owners of sequences that left a slot since the last plan.
    left: FxHashSet<Owner>,
    drain: Drain,
}

impl Queue {
    pub(super) fn new(spec: &LlmEngineSpec, shared: Arc<EngineState>) -> Self {
        let milliseconds = u64::from(spec.queue_timeout_ms);
        Self {
            shared,
            waiting: VecDeque::new(),
            timeout: (milliseconds > 0).then(|| Duration::from_millis(milliseconds)),
            left: FxHashSet::default(),
            drain: Drain::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the sequences that had a slot before, in order of arrival.
    pub(super) fn preempted(&self) -> impl Iterator<Item = SequenceId> {
        let preempted = self.waiting.iter().filter(|sequence| sequence.was_admitted);
        preempted.map(|sequence| sequence.id)
    }

    /// Inserts a sequence by its arrival, which is the end for a new one.
    pub(super) fn enqueue(&mut self, sequence: Sequence) {
        let index = self.waiting.partition_point(|other| other.id < sequence.id);
        self.waiting.insert(index, sequence);
    }

    /// Returns the waiting sequences in order of arrival.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Sequence> {
        self.waiting.iter()
    }

    pub(super) fn get(&self, id: SequenceId) -> Option<&Sequence> {
        self.waiting.get(self.index(id)?)
    }

    pub(super) fn get_mut(&mut self, id: SequenceId) -> Option<&mut Sequence> {
        let index = self.index(id)?;
        self.waiting.get_mut(index)
    }

    /// Removes a sequence, to be admitted or to end.
    pub(super) fn take(&mut self, id: SequenceId, now: Instant) -> Option<Sequence> {
        let index = self.index(id)?;
        let mut sequence = self.waiting.remove(index)?;
        leave(&self.shared, &mut sequence, now);
        Some(sequence)
    }

    fn index(&self, id: SequenceId) -> Option<usize> {
        let index = self.waiting.binary_search_by_key(&id, |other| other.id);
        index.ok()
    }

    /// Notes that a sequence of this owner has left its slot.
    pub(super) fn has_left(&mut self, owner: Owner) {
        self.left.insert(owner);
        self.drain.freed(self.shared.now());
    }

    /// Average time until one of `slots` slots becomes free while sequences wait; zero while none
    /// wait.
    pub(super) fn pace(&mut self, slots: u32) -> Duration {
        let now = self.shared.now();
        self.drain.observe(!self.waiting.is_empty(), now);
        self.drain.pace(slots, now)
    }

    /// Fills `rows` with the sequences that could run. Sequences of owners that left a slot rank
    /// behind those that came meanwhile.
    pub(super) fn fill_rows(&mut self, rows: &mut Vec<Row>) {
        if !self.left.is_empty() {
            let now = self.shared.now();
            for sequence in &mut self.waiting {
                if self.left.contains(&sequence.owner()) {
                    sequence.queued = queue_again(sequence.queued, sequence.head_start, now);
                }
            }
            self.left.clear();
        }
        rows.clear();
        let all = self.waiting.iter().map(Sequence::row);
        rows.extend(all.filter(|row| row.has_credit));
    }

    /// Returns the moment at which a sequence reaches its maximum waiting time; `None` if none can.
    pub(super) fn due(&self) -> Option<Instant> {
        let bound = self.timeout?;
        Some(self.longest_waiting()?.moments.submitted + bound)
    }

    /// Ends the sequences that have waited too long. `running` is the number of running sequences,
    /// for the message.
    pub(super) fn expire(&mut self, now: Instant, running: usize, outbox: &mut Outbox) {
        let Some(bound) = self.timeout else {
            return;
        };
        while let Some(sequence) = self.longest_waiting()
            && now.saturating_duration_since(sequence.moments.submitted) >= bound
        {
            let message = format!(
                "no slot became free within {bound:?} (queue_timeout_ms); running: {running}, waiting: {}",
                self.waiting.len()
            );
            let finish =
                FinishReason::Error(GenerationError::new(ErrorKind::ResourceExhausted, message));
            self.shared.measured.ended(&finish);
            if let Some(sequence) = self.take(sequence.id, now) {
                outbox.end(sequence, finish, now);
            }
        }
        outbox.flush();
    }

    /// Returns the longest-waiting sequence that never had a slot.
    fn longest_waiting(&self) -> Option<&Sequence> {
        self.waiting.iter().find(|sequence| !sequence.was_admitted)
    }

    /// Ends all waiting sequences for this reason.
    pub(super) fn end(&mut self, finish: &FinishReason, now: Instant, outbox: &mut Outbox) {
        for mut sequence in self.waiting.drain(..) {
            leave(&self.shared, &mut sequence, now);
            outbox.end(sequence, finish.clone(), now);
        }
    }
}

/// Ends the wait of a sequence. If it never had a slot, also frees its place and its tokens in the
/// queue's limits.
fn leave(shared: &EngineState, sequence: &mut Sequence, now: Instant) {
    sequence.moments.slot_wait.end(now);
    if !sequence.was_admitted {
        shared.places.leave(sequence.request.tenant);
        shared.places.remove_tokens(sequence.prompt_tokens.into());
        if let Some(admitted) = sequence.request.on_admission.take() {
            admitted();
        }
    }
}
