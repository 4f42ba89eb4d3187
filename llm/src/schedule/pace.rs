//! Number of prompt tokens in a step with decodes: as many as keep it under its target time.

use super::cost::{CostModel, StepSize};

/// Default target, as a multiple of the time of the decodes alone. So two thirds of the time go to
/// prompts, which end sooner and then share their steps with the other decodes.
const SHARE: f64 = 3.0;
/// Maximum factor on the target if more than one prompt waits. Each of them waits as long as a
/// stream does.
const MAX_BURST: f64 = 4.0;
/// Minimum default target in microseconds. Five tokens per second are a reader's pace. In shorter
/// steps, pieces of prompts are so small that each of their tokens takes longer.
const MIN_TARGET: f64 = 200_000.0;
/// Maximum part of a token budget that prompts keep if decodes would fill it.
const MAX_OF_BUDGET: f64 = 0.875;
/// Minimum number of prompt tokens in each step that has room, whatever the target.
pub(crate) const MIN_PROMPT_TOKENS: u32 = 16;

/// Time that a step may take while sequences decode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace<'a> {
    pub(crate) cost: &'a CostModel,
    /// Target in microseconds; `None` chooses one.
    pub(crate) target: Option<u64>,
}

impl Pace<'_> {
    /// Returns the target time of a step with these decodes, in microseconds. `prompts` is the
    /// number of prompts that could continue or begin.
    pub(crate) fn target_micros(&self, decodes: &StepSize, prompts: u32) -> f64 {
        if let Some(target) = self.target {
            return target as f64;
        }
        let alone = (SHARE * self.cost.decode_micros(decodes)).max(MIN_TARGET);
        alone * burst(decodes.decode_tokens, prompts)
    }

    /// Number of tokens reserved for prompts if decodes would fill the budget. They take [`SHARE`]
    /// of the time, beside the decodes that fit into the rest. The share grows with the number of
    /// prompts that could continue or begin.
    pub(crate) fn prompt_share(&self, decodes: u32, prompts: u32, budget: u32) -> u32 {
        let prompt = self.cost.token_micros();
        // A decode takes longer than a prompt token, because its logits are computed.
        let decode = self.cost.beside_prompts_micros().max(prompt);
        let for_prompts = (SHARE * burst(decodes, prompts) - 1.0) * decode;
        let share = if prompt > 0.0 {
            for_prompts / (for_prompts + prompt)
        } else {
            1.0
        };
        (f64::from(budget) * share.min(MAX_OF_BUDGET)) as u32
    }

    /// Maximum number of prompt tokens, up to `limit`, beside these decodes in a step with this
    /// target.
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

    /// Number of drafted tokens that fit in the target time, beside the decodes and prompts of a
    /// step. Without a target set by the user, only prompts limit drafts.
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

/// Factor on the duration of a step, compared with one prompt.
fn burst(decodes: u32, prompts: u32) -> f64 {
    let others = f64::from(prompts.saturating_sub(1));
    (1.0 + others / f64::from(decodes.max(1))).min(MAX_BURST)
}
