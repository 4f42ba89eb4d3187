//! Drafts tokens for the sequences that decode, as many as are worth their rows.

use super::drafter::Steps;
use super::step::Core;
use crate::backend::DraftSupport;
use crate::schedule::cost::StepSize;
use crate::sequence::Sequence;
use crate::speculate::{self, LinearCost};

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
            let decoding = self.running.iter().filter(|sequence| sequence.decodes());
            let shortest = decoding.map(|sequence| sequence.drafts().len()).min();
            for sequence in &mut self.running {
                sequence.keep_drafts(shortest.unwrap_or(0));
            }
        }
    }
}
