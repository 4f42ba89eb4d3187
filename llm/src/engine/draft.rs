//! Drafts tokens for the sequences that decode, as many as are worth their rows.

use super::step::Core;
use crate::backend::DraftSupport;
use crate::speculate::{self, LinearCost};

impl Core<'_> {
    /// Drafts for the next step.
    pub(super) fn draft(&mut self) {
        self.chances.clear();
        let mut decoding = 0;
        for sequence in &mut self.running {
            sequence.draft();
            decoding += u32::from(sequence.decodes());
            self.chances.extend_from_slice(sequence.draft_chances());
        }
        if self.chances.is_empty() {
            return;
        }
        self.chances
            .sort_unstable_by(|left, right| right.total_cmp(left));
        let cost = |rows| LinearCost::ASSUMED.of(rows);
        let least = match speculate::worthwhile(&self.chances, decoding, cost) {
            0 => f32::INFINITY,
            count => self.chances[count - 1],
        };
        for sequence in &mut self.running {
            sequence.keep_drafts_of(least);
        }
        if self.backend.draft_support() == DraftSupport::SameLength {
            let decoding = self.running.iter().filter(|sequence| sequence.decodes());
            let shortest = decoding.map(|sequence| sequence.drafts().len()).min();
            for sequence in &mut self.running {
                sequence.keep_drafts(shortest.unwrap_or(0));
            }
        }
    }
}
