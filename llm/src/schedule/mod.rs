//! Plans which sequences a step computes: a pure function over plain values.
//!
//! **Order.** Sequences have a rank: the time of their arrival, and earlier for each point of their
//! priority. The ranks of those that have a slot do not change, so a waiting sequence in time goes
//! before all later ones, whatever their priority.
//!
//! **Requests.** Before ranks come [turns]: the first sequence of each request goes before the
//! second of any. If no slot is free, a request that has none takes one from the request that has
//! most, and more than one. With tenants, the same holds between them, and between the requests of
//! each.
//!
//! **A step.** Decodes come first (one token each), then prompts, running ones and those that wait
//! for a place alike, then the decodes' drafts, all under one token budget. If decodes would fill
//! the budget, prompts keep as much of it as takes two thirds of the time or more, and decodes go
//! round-robin in neighboring slots. Beside decodes, prompts get as many tokens as keep the step
//! under its [target time](pace); alone they get the whole budget.
//!
//! **Order of prompts.** A prompt goes after those that arrived later and are shorter, as long as
//! these came within [`OVERTAKING`] times the time that its own missing tokens take to compute: a
//! short prompt is not stuck behind a long one, and the wait of a long one is bounded by its own
//! length.
//!
//! **Cells.** A sequence is admitted when its tokens fit in the free cells beside what admitted
//! prompts still need and a few cells for each running sequence to grow; it holds only cells it has
//! computed. When a running sequence needs a cell and none is free, a victim gives up all of its
//! cells and goes back to the queue in its old place, to be computed again from its tokens (nothing
//! is sampled again). Victims are sequences that sit out for lack of credit, then the last in rank.
//!
//! **Why this cannot lock up.** The first in order with credit is never a victim of another one,
//! every other sequence can be its victim, and alone it fits (the engine refuses longer ones), so
//! it advances until it ends: in every step that is not filled by the few prompts that may overtake
//! it. It stays the first, as those that come later have a later rank. A request that takes a slot
//! from another has none, and the other keeps one, so no two take slots from each other. A
//! sequence without credit needs nothing, and its cells and its slot go to those that need them.

use cost::StepSize;
use pace::Pace;
use step::Step;
use turns::Owner;

use crate::backend::Slot;
use crate::protocol::{RequestId, SequenceId};

mod admission;
pub(crate) mod cost;
pub(crate) mod pace;
mod step;
pub(crate) mod turns;

/// Cells kept free for each running sequence to grow into before another one is admitted.
const GROWTH_CELLS: u32 = 16;
/// Steps a sequence may sit out for lack of credit before a waiting one may take its place while
/// others run.
pub(crate) const PAUSE_GRACE_STEPS: u64 = 64;
/// A prompt that is split advances by multiples of this: kernels compute so many tokens as one
/// tile, and part of a tile takes longer than a whole one on some machines.
const PROMPT_TILE: u32 = 16;
/// How many times its own computing time a prompt may be overtaken by shorter ones.
const OVERTAKING: f64 = 4.0;

/// What does not change from step to step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) batch_tokens: u32,
    pub(crate) max_sequences: u32,
    /// Whether a prompt may be computed over several steps.
    pub(crate) split_prompts: bool,
}

/// A place in an order: by turn, then by when it queued up.
pub(crate) type Order = (u32, i64, SequenceId);

/// A sequence as the scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) id: SequenceId,
    /// Whose it is.
    pub(crate) request: RequestId,
    /// Whose turns it takes.
    pub(crate) owner: Owner,
    /// How many places its owner has before it, in units of its weight; see [`turns`].
    pub(crate) turn: u32,
    /// How many its request has.
    pub(crate) request_turn: u32,
    /// Its place among the sequences of its owner, in microseconds: the lower goes first.
    pub(crate) rank: i64,
    /// Its place among all sequences of the same turn. Later than the rank where the owner has had
    /// a place meanwhile.
    pub(crate) queued: i64,
    /// Its place in the backend, which computes neighbors together; `None` while it waits for one.
    pub(crate) slot: Option<Slot>,
    /// Tokens known: prompt and generated.
    pub(crate) tokens: u32,
    /// The first tokens that are computed already; of a waiting sequence, those it need not compute
    /// because another one has.
    pub(crate) computed: u32,
    /// Cells that become free if it is preempted: shared ones do not. Of a waiting sequence, new
    /// cells that its `computed` tokens take as soon as it is admitted.
    pub(crate) owned: u32,
    /// So many of its next tokens are computed in one step or not at all; 0 if any number may be.
    pub(crate) at_once: u32,
    /// Waits on purpose: another sequence is computing what it begins with.
    pub(crate) deferred: bool,
    /// Tokens that may still be generated.
    pub(crate) remaining: u32,
    /// Tokens guessed to come after the known ones. A decode carries as many of them as the step
    /// has room for.
    pub(crate) drafts: u32,
    pub(crate) has_credit: bool,
    /// The step it last took part in, or began to run.
    pub(crate) last_step: u64,
}

impl Row {
    /// Tokens that are known and not computed.
    pub(crate) fn pending(&self) -> u32 {
        self.tokens - self.computed
    }

    /// The place in the order of all; no two sequences have the same.
    pub(crate) fn order(&self) -> Order {
        (self.turn, self.queued, self.id)
    }

    /// Whether its owner has places before it, or its request has.
    pub(crate) fn is_spare(&self) -> bool {
        self.turn > 0 || self.request_turn > 0
    }

    /// Returns true if it may take the place of another one while it waits. Its owner has none, or
    /// not as many as its weight says, and the other's has more; or its owner is a tenant and has
    /// less than half as many as the other's, by their weights; or the first is true of two
    /// requests of one owner.
    fn may_replace(&self, other: &Self) -> bool {
        if self.owner == other.owner {
            return self.request_turn == 0 && other.request_turn > 0;
        }
        let is_first = self.turn == 0 && other.turn > 0;
        let is_tenant = matches!(self.owner, Owner::Tenant(_));
        is_first || (is_tenant && other.turn > 2 * self.turn)
    }

    /// The place in the order of prompts, where a prompt token takes so many microseconds.
    fn prompt_order(&self, token_micros: f64) -> Order {
        let allowance = OVERTAKING * token_micros * f64::from(self.pending());
        let queued = self.queued.saturating_add(allowance as i64);
        (self.turn, queued, self.id)
    }

    fn is_decode(&self) -> bool {
        self.has_credit && self.pending() == 1
    }

    /// Whether a waiting sequence may be admitted now.
    fn may_join(&self) -> bool {
        self.has_credit && !self.deferred
    }

    /// Drafts that a decode could use: it yields one token more than the drafts that prove right.
    fn useful_drafts(&self) -> u32 {
        self.drafts.min(self.remaining.saturating_sub(1))
    }
}

/// What is different in each step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now<'a> {
    pub(crate) step: u64,
    pub(crate) free_cells: u32,
    /// Sequences that have a slot, in [order](Row::order).
    pub(crate) running: &'a [Row],
    /// Sequences that wait for a slot, in order.
    pub(crate) waiting: &'a [Row],
    /// Whether the last step was kept for a whole prompt.
    pub(crate) prompt_had_turn: bool,
    /// Where decodes go round-robin, those in this slot and behind it come first.
    pub(crate) turn: Slot,
    /// How long the step may take.
    pub(crate) pace: Pace<'a>,
}

/// The scheduler's decision. Kept between steps to reuse its memory.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Running sequences that give up their cells and go back to the queue.
    pub(crate) preempt: Vec<SequenceId>,
    /// Waiting sequences that get a slot.
    pub(crate) admit: Vec<SequenceId>,
    /// The batch: how many tokens of which sequence, running or just admitted.
    pub(crate) work: Vec<Work>,
    /// Whether decodes sat out so that a whole prompt fits.
    pub(crate) prompt_turn: bool,
    /// The slot behind the last decode that had its turn.
    pub(crate) next_turn: Slot,
    /// The batch in numbers.
    pub(crate) size: StepSize,
    /// The time the step should not exceed while sequences decode.
    pub(crate) target_micros: f64,
    /// Most prompt tokens the step had room for.
    pub(crate) prompt_limit: u32,
    state: Vec<State>,
    prompts: Vec<Prompt>,
    /// Which running sequences decode.
    decodes: Vec<usize>,
}

/// Tokens of one sequence in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) id: SequenceId,
    /// Known tokens to compute.
    pub(crate) tokens: u32,
    /// Drafted tokens to compute after them.
    pub(crate) drafts: u32,
}

impl Work {
    fn known(id: SequenceId, tokens: u32) -> Self {
        Self {
            id,
            tokens,
            drafts: 0,
        }
    }
}

/// A prompt that could go on or begin.
#[derive(Clone, Copy, Debug)]
struct Prompt {
    order: Order,
    /// Its index among the waiting or the running.
    index: usize,
    waits: bool,
}

/// What this step has decided so far about a running sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Scheduled(u32),
    Preempted,
}

/// Plans one step into `plan`.
pub(crate) fn plan_step(limits: &Limits, now: &Now<'_>, plan: &mut Plan) {
    plan_once(limits, now, plan);
    if plan.prompt_turn && plan.work.is_empty() {
        plan_once(
            limits,
            &Now {
                prompt_had_turn: true,
                ..*now
            },
            plan,
        ); // the prompt does not fit yet: decode instead
    }
}

fn plan_once(limits: &Limits, now: &Now<'_>, plan: &mut Plan) {
    plan.preempt.clear();
    plan.admit.clear();
    plan.work.clear();
    plan.prompt_turn = false;
    plan.next_turn = now.turn;
    plan.size = StepSize::default();
    plan.state.clear();
    plan.state.resize(now.running.len(), State::Idle);
    let mut step = Step::new(limits, now, plan);
    step.schedule_decodes();
    step.schedule_prompts();
    step.finish();
}

#[cfg(test)]
mod tests;
