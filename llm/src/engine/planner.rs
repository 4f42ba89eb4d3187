//! Planning of the next step: passes the sequences to the scheduler, with the prefixes that they
//! could reuse from each other.

use super::queue::Queue;
use super::sequence::Sequence;
use super::slots::Slots;
use crate::backend::Capacity;
use crate::cache::{PrefixCache, WORTHWHILE, common};
use crate::protocol::SequenceId;
use crate::schedule::pace::Pace;
use crate::schedule::turns::OwnerTurns;
use crate::schedule::{self, Now, Row, StepLimits, StepPlan};
use crate::speculate::Drafting;

/// Makes plans. Its memory is reused from step to step.
pub(super) struct Planner {
    limits: StepLimits,
    turns: OwnerTurns,
    running: Vec<Row>,
    waiting: Vec<Row>,
    /// All waiting sequences that could run, in the order in which they get slots.
    order: Vec<SequenceId>,
}

impl Planner {
    pub(super) fn new(capacity: &Capacity, split_prompts: bool) -> Self {
        Self {
            limits: StepLimits {
                batch_tokens: capacity.max_batch_tokens,
                max_sequences: capacity.max_sequences,
                split_prompts,
            },
            turns: OwnerTurns::default(),
            running: Vec::new(),
            waiting: Vec::new(),
            order: Vec::new(),
        }
    }

    /// Plans the next step. `plan` holds the last one, and is replaced.
    pub(super) fn plan(
        &mut self,
        queue: &mut Queue,
        slots: &mut Slots,
        prefixes: &mut PrefixCache,
        pace: Pace<'_>,
        plan: &mut StepPlan,
    ) {
        self.running.clear();
        self.running
            .extend(slots.running().iter().map(|sequence| Row {
                owned: prefixes.owned(&sequence.cells),
                ..sequence.row()
            }));
        queue.fill_rows(&mut self.waiting);
        self.turns.arrange(&mut self.running, &mut self.waiting);
        self.order.clear();
        self.order.extend(self.waiting.iter().map(|row| row.id));
        self.isolate_suspect(queue, slots);
        self.waiting.truncate(self.limits.max_sequences as usize);
        self.offer_prefixes(queue, slots, prefixes);
        let prompt_had_turn = plan.prompt_turn;
        let turn = plan.next_turn;
        loop {
            let now = Now {
                step: slots.step(),
                free_cells: prefixes.free_cells(),
                running: &self.running,
                waiting: &self.waiting,
                prompt_had_turn,
                turn,
                pace,
            };
            schedule::plan_step(&self.limits, &now, plan);
            if !prefixes.is_on || !self.defer_followers(queue, prefixes, &plan.admit) {
                break;
            }
        }
    }

    /// Returns the sequences that wait after a plan is applied, in the order in which they get
    /// slots. Preempted sequences, and those that could not run, come last.
    pub(super) fn waiting<'a>(
        &'a self,
        plan: &'a StepPlan,
        queue: &'a Queue,
    ) -> impl Iterator<Item = SequenceId> + 'a {
        let ordered = self.order.iter().filter(|id| !plan.admit.contains(id));
        let can_run = |id: &&SequenceId| queue.get(**id).is_some_and(Drafting::has_credit);
        let preempted = plan.preempt.iter().filter(can_run);
        let paused = queue.waiting().filter(|other| !other.has_credit());
        let paused = paused.map(|other| other.id);
        ordered.chain(preempted).copied().chain(paused)
    }

    /// Leaves only one sequence to compute if there are suspects: the first of them, which may have
    /// begun already.
    fn isolate_suspect(&mut self, queue: &Queue, slots: &Slots) {
        let mut all = slots.running().iter().chain(queue.waiting());
        let suspect = all.find(|sequence| sequence.is_suspect() && sequence.has_credit());
        if let Some(Sequence { id, .. }) = suspect {
            for row in &mut self.running {
                row.has_credit &= row.id == *id;
            }
            self.waiting.retain(|row| row.id == *id);
        }
    }

    /// Adds to the rows of waiting sequences the prefixes that they could reuse.
    fn offer_prefixes(&mut self, queue: &Queue, slots: &mut Slots, prefixes: &mut PrefixCache) {
        // Without a free slot, a sequence gets one only if its owner has none and another owner has
        // several.
        let is_full = !slots.has_free() && !self.running.iter().any(Row::is_spare);
        if !prefixes.is_on || is_full {
            return;
        }
        for row in &mut self.waiting {
            let Some(sequence) = queue.get(row.id) else {
                continue;
            };
            let offer = prefixes.offer(&sequence.group, sequence.shareable(), slots);
            if let Some((leader, at)) = offer.stop
                && let Some(leader) = slots.get_mut(leader)
            {
                leader.cells.stop_at(at);
            }
            row.computed = offer.tokens;
            row.at_once = sequence.at_once(offer.tokens);
            row.owned = offer.cells;
            // Those that could compute its prefix do not run beside a suspect.
            row.deferred = offer.grows && !sequence.is_suspect();
        }
    }

    /// Defers planned admissions whose prompt begins like that of another one, so that only one
    /// computes the common part. Returns true if there were any, so that the plan must be made
    /// again.
    fn defer_followers(
        &mut self,
        queue: &mut Queue,
        prefixes: &PrefixCache,
        admit: &[SequenceId],
    ) -> bool {
        if admit.len() < 2 {
            return false;
        }
        let by_checkpoints = prefixes.has_checkpoints();
        let mut leaders: Vec<(&Sequence, u32)> = Vec::with_capacity(admit.len());
        let mut followed: Vec<(SequenceId, u32)> = Vec::new();
        for id in admit {
            let sequence = queue.get(*id).expect("only waiting sequences are admitted");
            let Some(row) = self.waiting.iter_mut().find(|row| row.id == *id) else {
                continue;
            };
            let tokens = sequence.shareable();
            let leader = leaders.iter().find_map(|(leader, computed)| {
                let alike = common(&leader.tokens, tokens) as u32;
                // A leader that begins behind a position makes no checkpoint there.
                let leads = !by_checkpoints || *computed < alike;
                let follows = leader.group == sequence.group && alike >= row.computed + WORTHWHILE;
                (leads && follows).then_some((leader.id, alike))
            });
            if let Some(leader) = leader {
                row.deferred = true;
                followed.push(leader);
            } else {
                leaders.push((sequence, row.computed));
            }
        }
        for (leader, at) in followed.iter().filter(|_| by_checkpoints) {
            if let Some(leader) = queue.get_mut(*leader) {
                leader.cells.stop_at(*at);
            }
        }
        !followed.is_empty()
    }
}
