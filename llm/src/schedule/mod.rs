//! Selection of the sequences that a step computes: a pure function over plain values.
//!
//! **Order.** Sequences have a rank: the time of their arrival, and earlier for each point of their
//! priority. The ranks of those that have a slot do not change, so a waiting sequence in time goes
//! before all later ones, whatever their priority.
//!
//! **Requests.** Before ranks come [turns]: the first sequence of each request goes before the
//! second of any. If no slot is free, a request without one takes a slot from the request that has
//! most, if that has more than one. With tenants, the same holds between them, and between the
//! requests of each.
//!
//! **A step.** Decodes come first (one token each), then prompts (running and waiting ones alike),
//! then the decodes' drafts, all under one token budget. If decodes would fill the budget, prompts
//! keep a part of it that takes two thirds of the time or more, and decodes go round-robin in
//! neighboring slots. Beside decodes, prompts get as many tokens as keep the step under its [target
//! time](pace); alone they get the whole budget.
//!
//! **Order of prompts.** A prompt may be overtaken by shorter ones that arrived later, but only
//! within [`OVERTAKING`] times the time that its own missing tokens take to compute. So a short
//! prompt is not stuck behind a long one, and the wait of a long one is bounded by its own length.
//!
//! **Cells.** A sequence is admitted when its tokens fit in the free cells. Cells that admitted
//! prompts still need, and a few for each running sequence to grow, do not count as free. A
//! sequence holds only cells it has computed. When a running sequence needs a cell and none is
//! free, a victim loses all of its cells and returns to the queue in its old place, to be computed
//! again from its tokens (nothing is sampled again). Victims are sequences that sit out for lack of
//! credit, then the last in rank.
//!
//! **Freedom from deadlock.** The first in order with credit is never a victim of another one,
//! every other sequence can be its victim, and alone it fits (the engine refuses longer ones). So
//! it advances until it ends, in every step that is not filled by the few prompts that may overtake
//! it. It stays the first, because later sequences have a later rank. A request that takes a slot
//! from another has none, and the other keeps one, so no two take slots from each other. A sequence
//! without credit needs nothing, and its cells and its slot go to those that need them.

use cost::StepSize;
use pace::Pace;
use step::PlanBuilder;
use turns::Owner;

use crate::backend::Slot;
use crate::protocol::{RequestId, SequenceId};

mod admission;
pub(crate) mod cost;
pub(crate) mod pace;
mod step;
pub(crate) mod turns;

/// Number of cells kept free for each running sequence to grow, before another one is admitted.
const GROWTH_CELLS: u32 = 16;
/// Number of steps that a sequence may sit out for lack of credit before a waiting one may take its
/// slot while others run.
pub(crate) const PAUSE_GRACE_STEPS: u64 = 64;
/// Granularity of a split prompt, in tokens. Kernels compute this many tokens as one tile, and part
/// of a tile takes longer than a whole one on some machines.
const PROMPT_TILE: u32 = 16;
/// Multiple of a prompt's computing time within which shorter prompts may overtake it.
const OVERTAKING: f64 = 4.0;

/// Limits that do not change from step to step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepLimits {
    pub(crate) batch_tokens: u32,
    pub(crate) max_sequences: u32,
    /// True if a prompt may be computed over several steps.
    pub(crate) split_prompts: bool,
}

/// Position in an order: by turn, then by time of queueing.
pub(crate) type TurnPosition = (u32, i64, SequenceId);

/// A sequence in the form that the scheduler needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) id: SequenceId,
    /// Request that the sequence belongs to.
    pub(crate) request: RequestId,
    /// Owner whose turns it takes.
    pub(crate) owner: Owner,
    /// Number of its owner's slots before it, in units of the owner's weight; see [`turns`].
    pub(crate) turn: u32,
    /// Number of its request's slots before it.
    pub(crate) request_turn: u32,
    /// Rank among the sequences of its owner, in microseconds; lower goes first.
    pub(crate) rank: i64,
    /// Rank among all sequences of the same turn. Later than `rank` if the owner has had a slot
    /// meanwhile.
    pub(crate) queued: i64,
    /// Slot in the backend, which computes neighbors together; `None` while it waits for one.
    pub(crate) slot: Option<Slot>,
    /// Number of known tokens: prompt and generated.
    pub(crate) tokens: u32,
    /// Number of first tokens that need not be computed: of a running sequence, those it has
    /// computed; of a waiting one, those it can reuse.
    pub(crate) computed: u32,
    /// Of a running sequence, cells that become free if it is preempted; shared ones do not. Of a
    /// waiting one, new cells that its `computed` tokens take at admission.
    pub(crate) owned: u32,
    /// Number of its next tokens that must be computed in one step; 0 if any number may be.
    pub(crate) at_once: u32,
    /// True if it waits deliberately, because another sequence is computing its prefix.
    pub(crate) deferred: bool,
    /// Maximum number of tokens that may still be generated.
    pub(crate) remaining: u32,
    /// Number of drafts after the known tokens. A decode carries as many of them as the step has
    /// room for.
    pub(crate) drafts: u32,
    pub(crate) has_credit: bool,
    /// Last step that it took part in, or in which it began to run.
    pub(crate) last_step: u64,
}

impl Row {
    /// Number of known tokens that are not computed.
    pub(crate) fn pending(&self) -> u32 {
        self.tokens - self.computed
    }

    /// Returns the position in the order of all sequences, which is unique.
    pub(crate) fn order(&self) -> TurnPosition {
        (self.turn, self.queued, self.id)
    }

    /// Returns true if its owner or its request has other slots before it.
    pub(crate) fn is_spare(&self) -> bool {
        self.turn > 0 || self.request_turn > 0
    }

    /// Returns true if a waiting sequence may take the slot of another one. Its owner has no slot,
    /// or fewer than its weight, and the other's has more. Or its owner is a tenant with less than
    /// half as many slots as the other's, by their weights. Or the first is true of two requests of
    /// one owner.
    fn may_replace(&self, other: &Self) -> bool {
        if self.owner == other.owner {
            return self.request_turn == 0 && other.request_turn > 0;
        }
        let is_first = self.turn == 0 && other.turn > 0;
        let is_tenant = matches!(self.owner, Owner::Tenant(_));
        is_first || (is_tenant && other.turn > 2 * self.turn)
    }

    /// Returns the position in the order of prompts, if a prompt token takes this many
    /// microseconds.
    fn prompt_order(&self, token_micros: f64) -> TurnPosition {
        let allowance = OVERTAKING * token_micros * f64::from(self.pending());
        let queued = self.queued.saturating_add(allowance as i64);
        (self.turn, queued, self.id)
    }

    fn is_decode(&self) -> bool {
        self.has_credit && self.pending() == 1
    }

    /// Returns true if a waiting sequence may be admitted now.
    fn may_join(&self) -> bool {
        self.has_credit && !self.deferred
    }

    /// Number of drafts that a decode could use: it yields one token more than the drafts that are
    /// right.
    fn useful_drafts(&self) -> u32 {
        self.drafts.min(self.remaining.saturating_sub(1))
    }
}

/// Inputs that differ in each step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now<'a> {
    pub(crate) step: u64,
    pub(crate) free_cells: u32,
    /// Sequences that have a slot, in [order](Row::order).
    pub(crate) running: &'a [Row],
    /// Sequences that wait for a slot, in [order](Row::order).
    pub(crate) waiting: &'a [Row],
    /// True if the last step was reserved for a whole prompt.
    pub(crate) prompt_had_turn: bool,
    /// First slot of the round-robin: decodes in this slot and behind it come first.
    pub(crate) turn: Slot,
    /// Target time of the step.
    pub(crate) pace: Pace<'a>,
}

/// The scheduler's decision. Kept between steps to reuse its memory.
#[derive(Debug, Default)]
pub(crate) struct StepPlan {
    /// Running sequences that lose their cells and return to the queue.
    pub(crate) preempt: Vec<SequenceId>,
    /// Waiting sequences that get a slot.
    pub(crate) admit: Vec<SequenceId>,
    /// The batch: the number of tokens of each sequence, running or just admitted.
    pub(crate) work: Vec<RowWork>,
    /// True if decodes sat out so that a whole prompt fits.
    pub(crate) prompt_turn: bool,
    /// Slot behind the last decode of this round.
    pub(crate) next_turn: Slot,
    /// Amounts of work in the batch.
    pub(crate) size: StepSize,
    /// Time that the step should not exceed while sequences decode, in microseconds.
    pub(crate) target_micros: f64,
    /// Maximum number of prompt tokens that the step had room for.
    pub(crate) prompt_limit: u32,
    state: Vec<RowState>,
    prompts: Vec<OpenPrompt>,
    /// Indices of the running sequences that decode.
    decodes: Vec<usize>,
}

/// Tokens of one sequence in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowWork {
    pub(crate) id: SequenceId,
    /// Number of known tokens to compute.
    pub(crate) tokens: u32,
    /// Number of drafted tokens to compute after them.
    pub(crate) drafts: u32,
}

impl RowWork {
    fn known(id: SequenceId, tokens: u32) -> Self {
        Self {
            id,
            tokens,
            drafts: 0,
        }
    }
}

/// A prompt that could continue or begin.
#[derive(Clone, Copy, Debug)]
struct OpenPrompt {
    order: TurnPosition,
    /// Index among the waiting or the running sequences.
    index: usize,
    waits: bool,
}

/// Decision of this step about a running sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowState {
    Idle,
    Scheduled(u32),
    Preempted,
}

/// Plans one step into `plan`.
pub(crate) fn plan_step(limits: &StepLimits, now: &Now<'_>, plan: &mut StepPlan) {
    plan_once(limits, now, plan);
    if plan.prompt_turn && plan.work.is_empty() {
        // The prompt does not fit yet: decode instead.
        let decodes = Now {
            prompt_had_turn: true,
            ..*now
        };
        plan_once(limits, &decodes, plan);
    }
}

fn plan_once(limits: &StepLimits, now: &Now<'_>, plan: &mut StepPlan) {
    plan.preempt.clear();
    plan.admit.clear();
    plan.work.clear();
    plan.prompt_turn = false;
    plan.next_turn = now.turn;
    plan.size = StepSize::default();
    plan.state.clear();
    plan.state.resize(now.running.len(), RowState::Idle);
    let mut step = PlanBuilder::new(limits, now, plan);
    step.schedule_decodes();
    step.schedule_prompts();
    step.finish();
}

#[cfg(test)]
mod tests;
