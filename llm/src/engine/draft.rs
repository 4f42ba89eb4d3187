//! Drafts tokens for the sequences that decode, as many as are worth their rows.

use super::drafter::Steps;
use super::step::Core;
use crate::backend::DraftSupport;
use crate::schedule::cost::StepSize;
use crate::sequence::Sequence;
use crate::speculate::{self, LinearCost, Yield};

impl Core<'_> {
    /// Drafts for the next step.
    pub(super) fn draft(&mut self) {
        let mut decodes = StepSize::default();
        for sequence in &mut self.running {
            sequence.draft();
            if sequence.decodes() {
                decodes.decode_tokens += 1;
                decodes.attended_cells += sequence.tokens.len() as u64;
            }
        }
        let model = self.timing.pace().cost;
        let steps = Steps {
            decodes: decodes.decode_tokens,
            cost: LinearCost::learned(model, &decodes),
            same_length: self.backend.draft_support() == DraftSupport::SameLength,
        };
        // Before the first step without drafts, nobody knows what they could save.
        if model.decode_micros(&decodes) > 0.0
            && !self.prompts_are_due()
            && let Some(drafter) = &mut self.drafter
        {
            drafter.draft(&mut self.running, &steps);
        }
        for sequence in &mut self.running {
            sequence.cut_drafts();
        }
        self.choose_drafts(&steps);
    }

    /// Whether the next step computes prompts, which come before drafts.
    fn prompts_are_due(&self) -> bool {
        let is_prompt = |sequence: &Sequence| sequence.has_credit() && !sequence.decodes();
        self.running.iter().any(is_prompt)
            || (!self.waiting.is_empty() && !self.free_slots.is_empty())
    }

    /// Gives up the drafts that are not worth their rows.
    fn choose_drafts(&mut self, steps: &Steps) {
        self.chances.clear();
        for sequence in &self.running {
            self.chances.extend_from_slice(sequence.draft_chances());
        }
        if self.chances.is_empty() {
            return;
        }
        self.chances
            .sort_unstable_by(|left, right| right.total_cmp(left));
        let cost = |rows| steps.cost.of(rows);
        let least = match speculate::worthwhile(&self.chances, steps.decodes, cost) {
            0 => f32::INFINITY,
            count => self.chances[count - 1],
        };
        for sequence in &mut self.running {
            sequence.keep_drafts_of(least);
        }
        if steps.same_length {
            self.level_drafts(steps);
        }
    }

    /// Sequences that draft more than others take a pass of their own for it: levels the drafts unless these passes pay.
    fn level_drafts(&mut self, steps: &Steps) {
        let drafting = || self.running.iter().filter(|sequence| sequence.decodes());
        let shortest = drafting().map(|sequence| sequence.drafts().len()).min();
        let shortest = shortest.unwrap_or(0);
        let expected = |most: usize| -> f32 {
            let chances =
                drafting().flat_map(|sequence| sequence.draft_chances().iter().take(most));
            chances.sum()
        };
        let level = Yield {
            tokens: f64::from(steps.decodes) + f64::from(expected(shortest)),
            rows: steps.decodes * (1 + shortest as u32),
            passes: 1,
        };
        let longer = drafting().filter(|sequence| sequence.drafts().len() > shortest);
        let drafts = drafting().map(|sequence| sequence.drafts().len() as u32);
        let apart = Yield {
            tokens: f64::from(steps.decodes) + f64::from(expected(usize::MAX)),
            rows: steps.decodes + drafts.sum::<u32>(),
            passes: 1 + longer.count() as u32,
        };
        if level.rate(steps.cost) >= apart.rate(steps.cost) {
            for sequence in &mut self.running {
                sequence.keep_drafts(shortest);
            }
        }
    }
}
