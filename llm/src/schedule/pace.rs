//! How many prompt tokens a step computes beside decodes: as many as keep it under its target time.

use super::cost::{CostModel, StepSize};

/// A target chosen here is this many times what the decodes alone take: two thirds of the time go
/// to prompts, which end sooner and then share their steps with the other decodes.
const SHARE: f64 = 3.0;
/// Up to this many times, if more than one prompt waits: each of them waits as long as a stream
/// does.
const MAX_BURST: f64 = 4.0;
/// A target chosen here is never shorter: five tokens a second are a reader's pace. In shorter
/// steps, pieces of prompts are so small that each of their tokens takes longer.
const MIN_TARGET: f64 = 200_000.0;
/// Of a token budget that decodes would fill, prompts keep no more than this part.
const MAX_OF_BUDGET: f64 = 0.875;
/// Prompts advance by at least so many tokens in each step that has room, whatever the target.
pub(crate) const MIN_PROMPT_TOKENS: u32 = 16;

/// How long a step may take while sequences decode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace<'a> {
    pub(crate) cost: &'a CostModel,
    /// In microseconds; `None` chooses one.
    pub(crate) target: Option<u64>,
}

impl Pace<'_> {
    /// The target time of a step with these decodes, in microseconds, where so many prompts could
    /// go on or begin.
    pub(crate) fn target_micros(&self, decodes: &StepSize, prompts: u32) -> f64 {
        if let Some(target) = self.target {
            return target as f64;
        }
        let alone = (SHARE * self.cost.decode_micros(decodes)).max(MIN_TARGET);
        alone * burst(decodes.decode_tokens, prompts)
    }

    /// Tokens reserved for prompts when decodes would fill the budget: as many as take their
    /// [`SHARE`] of the time beside the decodes that fit into the rest. The share grows with the
    /// number of prompts that could continue or begin.
    pub(crate) fn prompt_share(&self, decodes: u32, prompts: u32, budget: u32) -> u32 {
        let prompt = self.cost.token_micros();
        // A decode takes longer than a prompt token, as its logits are computed.
        let decode = self.cost.beside_prompts_micros().max(prompt);
        let for_prompts = (SHARE * burst(decodes, prompts) - 1.0) * decode;
        let share = if prompt > 0.0 {
            for_prompts / (for_prompts + prompt)
        } else {
            1.0
        };
        (f64::from(budget) * share.min(MAX_OF_BUDGET)) as u32
    }

    /// The most prompt tokens, up to `limit`, beside these decodes, in a step with this target.
    pub(crate) fn prompt_tokens(&self, decodes: &StepSize, target: f64, limit: u32) -> u32 {
        if decodes.decode_tokens == 0 {
            return limit;
        }
        let left = (target - self.cost.decode_micros(decodes)).max(0.0);
        let token = self.cost.beside_decodes_micros();
        let tokens = if token > 0.0 {
            (left / token) as u32
        } else {
            limit
        };
        tokens.max(MIN_PROMPT_TOKENS).min(limit)
    }

    /// How many drafted tokens there is time for beside the decodes and prompts of a step with this
    /// target. Without a target set by the user, drafts give way to prompts only.
    pub(crate) fn drafts(&self, step: &StepSize, target: f64, wanted: u32) -> u32 {
        if self.target.is_none() && step.prompt_tokens == 0 {
            return wanted;
        }
        let left = target - self.cost.micros(step);
        let token = self.cost.decode_token_micros();
        if left <= 0.0 {
            0
        } else if token <= 0.0 {
            wanted
        } else {
            wanted.min((left / token) as u32)
        }
    }
}

/// How many times as long a step may be as with one prompt.
fn burst(decodes: u32, prompts: u32) -> f64 {
    let others = f64::from(prompts.saturating_sub(1));
    (1.0 + others / f64::from(decodes.max(1))).min(MAX_BURST)
}
