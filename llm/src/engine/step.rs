//! The engine thread: take in commands, plan, decode, sample, hand out; once per step, until told to stop.
//!
//! Invariants: `running` and `waiting` are in order of arrival; a sequence holds a slot exactly while it is in `running`;
//! `cells` says which cells they hold, shared ones counted once; what fails in a step ends the sequences of its batch and no others.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use rustc_hash::FxHashSet;

use super::delivery::Outbox;
use super::drafter::Drafter;
use super::prefix_reuse::Sharing;
use super::queue_timeout::QueueTimeout;
use super::status::Shared;
use super::timing::Timing;
use super::{Command, stopped};
use crate::backend::{Backend, BatchToken, Capacity, DecodeError, DraftSupport, KvLayout, Slot};
use crate::cache::CellBook;
use crate::protocol::{ErrorKind, FinishReason, RequestId, SequenceId, Token};
use crate::sampler::Sampled;
use crate::schedule::turns::{Turns, queue_again};
use crate::schedule::{self, Limits, Now, Plan, Row, Work};
use crate::sequence::Sequence;
use crate::spec::EngineSpec;
use crate::vocab::Vocab;
use crate::worker::catch;

/// The state of the engine thread.
pub(super) struct Core<'a> {
    pub(super) backend: &'a mut dyn Backend,
    /// The draft model, if there is one.
    pub(super) drafter: Option<Drafter<'a>>,
    pub(super) vocab: Arc<dyn Vocab>,
    pub(super) shared: Arc<Shared>,
    pub(super) outbox: &'a mut Outbox,
    pub(super) capacity: Capacity,
    pub(super) limits: Limits,
    pub(super) end_tokens: Vec<Token>,
    pub(super) running: Vec<Sequence>,
    pub(super) waiting: VecDeque<Sequence>,
    /// The lowest is taken first.
    pub(super) free_slots: BinaryHeap<Reverse<Slot>>,
    /// The step before which a slot was last taken or freed.
    pub(super) slots_changed: u64,
    /// Whether gaps between slots cost time and the backend can close them.
    pub(super) closes_gaps: bool,
    pub(super) cells: CellBook,
    pub(super) sharing: Sharing,
    /// Cells the backend proved able to hold, at most `capacity.total_cells`.
    pub(super) cells_usable: u32,
    pub(super) step: u64,
    pub(super) timing: Timing,
    pub(super) queue_timeout: QueueTimeout,
    /// Requests of which a sequence has left its place since the last plan.
    pub(super) left: FxHashSet<RequestId>,
    // Memory reused from step to step.
    pub(super) plan: Plan,
    turns: Turns,
    pub(super) running_rows: Vec<Row>,
    pub(super) waiting_rows: Vec<Row>,
    pub(super) by_slot: Vec<(Slot, Work)>,
    pub(super) batch: Vec<BatchToken>,
    /// How many tokens of the batch are drafts.
    pub(super) drafted: u32,
    /// The chances of all drafts, to choose among them.
    pub(super) chances: Vec<f32>,
    pub(super) samples: Vec<(SequenceId, Option<Sampled>)>,
    pub(super) finished: Vec<SequenceId>,
}

impl<'a> Core<'a> {
    pub(super) fn new(
        spec: &EngineSpec,
        backend: &'a mut dyn Backend,
        draft: Option<&'a mut dyn Backend>,
        vocab: Arc<dyn Vocab>,
        shared: Arc<Shared>,
        outbox: &'a mut Outbox,
    ) -> Self {
        let n_vocab = backend.n_vocab();
        let capacity = backend.capacity();
        let limits = Limits {
            batch_tokens: capacity.max_batch_tokens,
            max_sequences: capacity.max_sequences,
            split_prompts: spec.dynamic_split_fuse,
        };
        Self {
            end_tokens: (0..vocab.n_vocab() as Token)
                .filter(|token| vocab.is_eog(*token))
                .collect(),
            backend,
            drafter: draft.map(|draft| Drafter::new(draft, n_vocab)),
            vocab,
            shared,
            outbox,
            capacity,
            limits,
            running: Vec::new(),
            waiting: VecDeque::new(),
            free_slots: (0..capacity.max_sequences)
                .map(|slot| Reverse(Slot(slot)))
                .collect(),
            slots_changed: 0,
            closes_gaps: capacity.layout == KvLayout::Streams && capacity.reuses_cells,
            cells: CellBook::default(),
            sharing: Sharing::new(spec, &capacity),
            cells_usable: capacity.total_cells,
            step: 0,
            timing: Timing::new(spec),
            queue_timeout: QueueTimeout::new(spec),
            left: FxHashSet::default(),
            plan: Plan::default(),
            turns: Turns::default(),
            running_rows: Vec::new(),
            waiting_rows: Vec::new(),
            by_slot: Vec::new(),
            batch: Vec::new(),
            drafted: 0,
            chances: Vec::new(),
            samples: Vec::new(),
            finished: Vec::new(),
        }
    }

    pub(super) fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Steps until the engine is dropped. Every sequence that is left then ends with an error.
    pub(super) fn run(&mut self, inbox: &Receiver<Command>) {
        let outcome = catch(|| self.serve(inbox));
        if let Err(message) = &outcome {
            tracing::error!(%message, "the engine thread panicked outside of a step");
        }
        while let Ok(command) = inbox.try_recv() {
            self.take_in(command); // a submission that came too late gets its answer below
        }
        let error = stopped();
        for sequence in self.running.drain(..).chain(self.waiting.drain(..)) {
            if !sequence.was_admitted {
                self.shared.leave_queue();
            }
            let output = sequence.end(FinishReason::Error(error.clone()));
            self.outbox.push(sequence.id, sequence.sink, output, 0);
        }
        self.cells = CellBook::default();
        self.publish(true);
        self.outbox.flush();
    }

    fn serve(&mut self, inbox: &Receiver<Command>) {
        loop {
            loop {
                match inbox.try_recv() {
                    Ok(Command::Shutdown) | Err(TryRecvError::Disconnected) => return,
                    Ok(command) => self.take_in(command),
                    Err(TryRecvError::Empty) => break,
                }
            }
            self.plan();
            let changes = !self.plan.preempt.is_empty();
            self.move_sequences();
            self.expire();
            if !self.plan.work.is_empty() {
                self.publish(false);
                self.step();
            } else if !changes {
                self.publish(true);
                match self.next_command(inbox) {
                    Ok(Command::Shutdown) | Err(RecvTimeoutError::Disconnected) => return,
                    Ok(command) => self.take_in(command),
                    Err(RecvTimeoutError::Timeout) => {} // somebody has waited too long
                }
            }
        }
    }

    pub(super) fn take_in(&mut self, command: Command) {
        match command {
            Command::Submit(mut sequence) => {
                self.shared.pulse.taken();
                if self.backend.draft_support() == DraftSupport::Never {
                    sequence.speculation = None;
                }
                self.enqueue(*sequence);
            }
            Command::Grant(id, credits) => {
                if let Some(sequence) = self.find(id) {
                    sequence.grant(credits);
                }
            }
            Command::Cancel(id) => {
                if self.find(id).is_some() {
                    self.shared.measured.cancelled();
                }
                self.cancel(id);
            }
            Command::Preview(question) => self.answer(&question),
            Command::Shrink => self.evict_to(0),
            Command::Shutdown => {}
        }
    }

    pub(super) fn find(&mut self, id: SequenceId) -> Option<&mut Sequence> {
        if let Ok(index) = self.running_index(id) {
            return self.running.get_mut(index);
        }
        let index = self
            .waiting
            .binary_search_by_key(&id, |sequence| sequence.id)
            .ok()?;
        self.waiting.get_mut(index)
    }

    pub(super) fn running_index(&self, id: SequenceId) -> Result<usize, usize> {
        self.running
            .binary_search_by_key(&id, |sequence| sequence.id)
    }

    pub(super) fn cancel(&mut self, id: SequenceId) {
        if let Ok(index) = self.running_index(id) {
            let mut sequence = self.running.remove(index);
            self.left.insert(sequence.request);
            self.keep(&sequence);
            self.release(&mut sequence);
        } else if let Ok(index) = self
            .waiting
            .binary_search_by_key(&id, |sequence| sequence.id)
            && let Some(sequence) = self.waiting.remove(index)
        {
            self.leave_queue(&sequence);
        }
    }

    /// Puts a sequence where its arrival says, which is the end for a new one.
    pub(super) fn enqueue(&mut self, sequence: Sequence) {
        let index = self.waiting.partition_point(|other| other.id < sequence.id);
        self.waiting.insert(index, sequence);
    }

    /// Puts the waiting sequences of requests that have left a place behind those who came meanwhile.
    fn queue_again(&mut self) {
        if self.left.is_empty() {
            return;
        }
        let now = self.shared.now();
        for sequence in &mut self.waiting {
            if self.left.contains(&sequence.request) {
                sequence.rank = queue_again(sequence.rank, sequence.head_start, now);
            }
        }
        self.left.clear();
    }

    pub(super) fn plan(&mut self) {
        self.draft();
        self.running_rows.clear();
        self.running_rows
            .extend(self.running.iter().map(|sequence| Row {
                owned: self.cells.owned(&sequence.held),
                ..sequence.row()
            }));
        self.queue_again();
        self.waiting_rows.clear();
        let admissible = self
            .waiting
            .iter()
            .map(Sequence::row)
            .filter(|row| row.has_credit);
        self.waiting_rows.extend(admissible);
        self.turns
            .arrange(&mut self.running_rows, &mut self.waiting_rows);
        self.waiting_rows
            .truncate(self.limits.max_sequences as usize);
        self.offer_prefixes();
        let prompt_had_turn = self.plan.prompt_turn;
        let turn = self.plan.next_turn;
        loop {
            let now = Now {
                step: self.step,
                free_cells: self.cells_usable.saturating_sub(self.cells.used()),
                running: &self.running_rows,
                waiting: &self.waiting_rows,
                prompt_had_turn,
                turn,
                pace: self.timing.pace(),
            };
            schedule::plan_step(&self.limits, &now, &mut self.plan);
            if !self.defer_followers() {
                break;
            }
        }
    }

    pub(super) fn step(&mut self) {
        self.step += 1;
        self.limit_prompt_rows();
        self.fill_batch();
        self.shared.pulse.begins(self.batch.len());
        self.samples.clear();
        self.timing.announce(&self.plan, &self.shared);
        let started = self.backend.now();
        let outcome = catch(|| {
            self.decode()?;
            self.sample();
            Ok(())
        });
        match outcome {
            Ok(Ok(())) => {
                let took = self.backend.now().duration_since(started);
                self.timing.record(&self.plan.size, took, &self.shared);
                self.shared.measured.step(took, self.batch.len());
                self.commit();
            }
            Ok(Err(DecodeError::NoCells)) => self.retry_with_fewer_cells(),
            Ok(Err(DecodeError::Failed(message))) => self.fail_batch(ErrorKind::Internal, &message),
            Err(message) => self.fail_batch(
                ErrorKind::Internal,
                &format!("the step panicked: {message}"),
            ),
        }
        self.publish(false);
        self.outbox.flush();
    }

    pub(super) fn publish(&self, idle: bool) {
        let shared = &self.shared;
        let preempted = self
            .waiting
            .iter()
            .filter(|sequence| sequence.was_admitted)
            .count();
        shared.preempted.store(preempted as u32, Ordering::Relaxed);
        shared
            .running
            .store(self.running.len() as u32, Ordering::Relaxed);
        shared
            .cells_used
            .store(self.cells.used(), Ordering::Relaxed);
        let tree = &self.sharing.tree;
        shared
            .saved_cells
            .store(tree.saved_cells(), Ordering::Relaxed);
        shared
            .saved_bytes
            .store(tree.saved_bytes(), Ordering::Relaxed);
        shared.pulse.beat(idle);
    }
}
