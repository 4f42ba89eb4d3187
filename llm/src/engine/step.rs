//! The engine thread: receive messages, plan, compute, sample, commit; once per step, until told to
//! stop.
//!
//! Invariants: a sequence holds a slot exactly while it runs; the prefix cache accounts for the
//! cells of all sequences, shared ones counted once; a failed step ends the sequences of its batch
//! and no others.

use std::sync::Arc;
use std::time::Instant;

use super::batch::Batch;
use super::delivery::Outbox;
use super::order::Order;
use super::planner::Planner;
use super::queue::Queue;
use super::sample::sample;
use super::sequence::Sequence;
use super::slots::Slots;
use super::status::{EngineState, adapter_bits};
use super::timing::Timing;
use crate::backend::{Backend, DecodeError, DraftSupport};
use crate::cache::PrefixCache;
use crate::model::vocab::Vocab;
use crate::protocol::{ErrorKind, FinishReason, SequenceId, Token};
use crate::schedule::StepPlan;
use crate::settings::LlmEngineSpec;
use crate::speculate::Drafts;
use crate::worker::{Stepper, catch, stopped};

/// The parts of the engine thread.
pub(super) struct Core<'a> {
    pub(super) backend: &'a mut dyn Backend,
    pub(super) vocab: Arc<dyn Vocab>,
    pub(super) shared: Arc<EngineState>,
    pub(super) outbox: &'a mut Outbox,
    pub(super) queue: Queue,
    pub(super) slots: Slots,
    pub(super) prefixes: PrefixCache,
    pub(super) drafts: Drafts<'a>,
    planner: Planner,
    pub(super) plan: StepPlan,
    pub(super) batch: Batch,
    /// End tokens of the vocabulary.
    end_tokens: Vec<Token>,
    /// Sequences that the step ended. Memory reused from step to step.
    pub(super) finished: Vec<SequenceId>,
    timing: Timing,
}

impl<'a> Core<'a> {
    pub(super) fn new(
        spec: &LlmEngineSpec,
        backend: &'a mut dyn Backend,
        draft: Option<&'a mut dyn Backend>,
        vocab: Arc<dyn Vocab>,
        shared: Arc<EngineState>,
        outbox: &'a mut Outbox,
    ) -> Self {
        let capacity = backend.capacity();
        let all_tokens = 0..vocab.n_vocab() as Token;
        let is_controlled = spec.plugin_config.draft_control != Some(false);
        Self {
            drafts: Drafts::new(backend, draft, is_controlled),
            backend,
            end_tokens: all_tokens.filter(|token| vocab.is_eog(*token)).collect(),
            vocab,
            queue: Queue::new(spec, Arc::clone(&shared)),
            shared,
            outbox,
            slots: Slots::new(&capacity),
            prefixes: PrefixCache::new(spec, &capacity),
            planner: Planner::new(&capacity, spec.dynamic_split_fuse),
            plan: StepPlan::default(),
            batch: Batch::default(),
            finished: Vec::new(),
            timing: Timing::new(spec),
        }
    }

    fn find(&mut self, id: SequenceId) -> Option<&mut Sequence> {
        self.slots.get_mut(id).or_else(|| self.queue.get_mut(id))
    }

    fn plan(&mut self) {
        let cost = self.timing.pace().cost;
        let admits = !self.queue.is_empty() && self.slots.has_free();
        self.drafts.draft(self.slots.running_mut(), cost, admits);
        self.planner.plan(
            &mut self.queue,
            &mut self.slots,
            &mut self.prefixes,
            self.timing.pace(),
            &mut self.plan,
        );
    }

    /// Computes the planned batch. A failure ends the sequences of the batch.
    fn compute(&mut self) {
        self.slots.begin_step();
        let n_vocab = self.backend.n_vocab();
        let wants_hidden = self.drafts.wants_hidden();
        self.batch
            .fill(&mut self.plan, &mut self.slots, n_vocab, wants_hidden);
        let tokens = self.batch.len();
        if tokens == 0 {
            return;
        }
        self.shared.pulse.begins(tokens);
        self.timing.announce(&self.plan, &self.shared);
        let started = self.backend.now();
        let outcome = catch(|| {
            self.batch.decode(self.backend, &mut self.slots)?;
            self.drafts
                .keep_hidden(&self.batch.hidden, self.backend.hidden());
            let (works, slots) = (&self.plan.work, &mut self.slots);
            sample(self.backend, &self.batch, works, slots, &self.end_tokens);
            Ok(())
        });
        match outcome {
            Ok(Ok(())) => {
                let took = self.backend.now().duration_since(started);
                self.timing.record(&self.plan.size, took, &self.shared);
                self.shared.measured.step(took, tokens);
                self.commit();
            }
            Ok(Err(DecodeError::NoCells)) => self.retry_with_fewer_cells(),
            Ok(Err(DecodeError::Failed(message))) => self.fail_batch(ErrorKind::Internal, &message),
            Err(message) => self.fail_batch(
                ErrorKind::Internal,
                &format!("the step panicked: {message}"),
            ),
        }
    }

    fn publish(&mut self, idle: bool) {
        let pace = self.queue.pace(self.slots.running().len() as u32);
        let shared = &self.shared;
        shared.freed_micros.set(pace.as_micros() as u64);
        shared.preempted.set(self.queue.preempted().count() as u64);
        let running = self.slots.running();
        let waiting = adapter_bits(self.queue.waiting());
        shared.adapters_running.set(adapter_bits(running.iter()));
        shared.adapters_waiting.set(waiting);
        let mut status = shared.published();
        status.sequences_running = running.len() as u32;
        status.kv_cells_used = self.prefixes.used_cells();
        status.prefix_cache = self.prefixes.status();
        drop(status);
        shared.pulse.beat(idle);
    }
}

impl Stepper for Core<'_> {
    type Order = Order;
    const NAME: &'static str = "the engine thread";

    fn take_in(&mut self, order: Order) {
        match order {
            Order::Generate(mut sequence) => {
                self.shared.pulse.taken.add(1);
                match (self.backend.draft_support(), &mut sequence.speculation) {
                    (DraftSupport::Never, speculation) => *speculation = None,
                    (DraftSupport::UpTo(most), Some(speculation)) => speculation.limit(most),
                    _ => {}
                }
                self.shared.standings.taken_in(sequence.id);
                self.queue.enqueue(*sequence);
            }
            Order::Grant(id, credits) => {
                if let Some(sequence) = self.find(id) {
                    sequence.grant(credits);
                }
            }
            Order::Preview(question) => {
                self.shared.pulse.taken.add(1);
                question.answer(&self.prefixes, &self.slots);
            }
            Order::Shrink => self.prefixes.shrink(),
        }
    }

    fn cancel(&mut self, number: u64) {
        if self.remove(SequenceId(number)) {
            self.shared.measured.cancelled.add(1);
        }
    }

    fn step(&mut self) -> bool {
        self.plan();
        let moves = !self.plan.preempt.is_empty();
        self.move_sequences();
        let running = self.slots.running().len();
        self.queue.expire(self.backend.now(), running, self.outbox);
        let waiting = self.planner.waiting(&self.plan, &self.queue);
        let (running, preempted) = (self.slots.running(), self.queue.preempted());
        self.shared.standings.set(running, waiting, preempted);
        if self.plan.work.is_empty() {
            if !moves {
                self.publish(true);
            }
            return moves;
        }
        self.publish(false);
        self.compute();
        self.publish(false);
        self.outbox.flush();
        true
    }

    /// Returns the moment at which a sequence reaches its maximum waiting time.
    fn due(&self) -> Option<Instant> {
        self.queue.due()
    }

    fn tidy(&mut self) -> bool {
        self.backend.tidy()
    }

    fn rest(&mut self) {
        self.backend.rest();
    }

    fn end(&mut self) {
        let finish = FinishReason::Error(stopped());
        let now = self.backend.now();
        self.slots.end(&finish, now, self.outbox);
        self.queue.end(&finish, now, self.outbox);
        self.prefixes.release_all();
        self.publish(true);
        self.outbox.flush();
    }
}
