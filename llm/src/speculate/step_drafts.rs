//! Drafts for the sequences that decode, as many as are worth their rows.

use super::drafter::Drafter;
use super::drafting::Drafting;
use super::worth::{LinearCost, Steps, Yield};
use crate::backend::{Backend, DraftSupport};
use crate::protocol::SequenceId;
use crate::schedule::cost::{CostModel, StepSize};

/// Drafting for all sequences of an engine.
pub(crate) struct Drafts<'a> {
    /// The draft model or the MTP layers; `None` if there are only drafts from texts.
    drafter: Option<Drafter<'a>>,
    /// True if all decoding sequences must draft the same number of tokens.
    same_length: bool,
    /// True if they draft only where that saves time.
    controlled: bool,
}

impl<'a> Drafts<'a> {
    /// Creates the drafting for a main model, with or without a draft model. If `controlled`,
    /// drafts are limited to those that save time; otherwise requests get as many as they ask for.
    pub(crate) fn new(
        main: &dyn Backend,
        model: Option<&'a mut dyn Backend>,
        controlled: bool,
    ) -> Self {
        Self {
            drafter: model.map(|model| Drafter::new(model, main.n_vocab())),
            same_length: controlled && main.draft_support() != DraftSupport::AnyLength,
            controlled,
        }
    }

    /// Drafts for the next step. The draft model drafts only in steps without prompts, which have
    /// priority. `admits` says that the next step may admit a prompt.
    pub(crate) fn draft(&mut self, running: &mut [impl Drafting], cost: &CostModel, admits: bool) {
        let mut decodes = StepSize::default();
        let mut prompts = admits;
        for sequence in &mut *running {
            sequence.draft();
            if sequence.decodes() {
                decodes.decode_tokens += 1;
                decodes.attended_cells += sequence.tokens().len() as u64;
            } else {
                prompts |= sequence.has_credit();
            }
        }
        let steps = Steps {
            decodes: decodes.decode_tokens,
            cost: LinearCost::learned(cost, &decodes),
            same_length: self.same_length,
            controlled: self.controlled,
        };
        // Before the first step without drafts, their benefit is unknown.
        if cost.decode_micros(&decodes) > 0.0
            && !prompts
            && let Some(drafter) = &mut self.drafter
        {
            drafter.draft(running, &steps);
        }
        for sequence in &mut *running {
            sequence.cut_drafts();
        }
        choose(running, &steps);
    }

    /// Returns true if the main model's hidden states are needed, for sequences that draft with its
    /// MTP layers.
    pub(crate) fn wants_hidden(&self) -> bool {
        self.drafter.as_ref().is_some_and(Drafter::wants_hidden)
    }

    /// Stores hidden states of a step, one row for each sequence and position in `tokens`.
    pub(crate) fn keep_hidden(&mut self, tokens: &[(SequenceId, u32)], rows: &[f32]) {
        if let Some(drafter) = &mut self.drafter {
            drafter.keep_hidden(tokens, rows);
        }
    }

    /// Drops the draft model's state of a sequence.
    pub(crate) fn forget(&mut self, id: SequenceId) {
        if let Some(drafter) = &mut self.drafter {
            drafter.forget(id);
        }
    }

    /// Zeroes the cells of the draft model, which no sequence has any more.
    pub(crate) fn clear(&mut self) {
        if let Some(drafter) = &mut self.drafter {
            drafter.backend.clear();
        }
    }
}

/// Drops the drafts that are not worth their rows.
fn choose(running: &mut [impl Drafting], steps: &Steps) {
    let price = steps.price(0.0);
    for sequence in &mut *running {
        // The chance of a later draft is never higher than that of an earlier one.
        let chances = sequence.draft_chances();
        sequence.keep_drafts(chances.partition_point(|chance| *chance > price));
    }
    if steps.same_length {
        level(running, steps);
    }
}

/// Equalizes the number of drafts, unless separate passes pay: sequences with more drafts than
/// others take a pass of their own.
fn level(running: &mut [impl Drafting], steps: &Steps) {
    let drafting = || running.iter().filter(|sequence| sequence.decodes());
    let shortest = drafting().map(|sequence| sequence.drafts().len()).min();
    let shortest = shortest.unwrap_or(0);
    let expected = |most: usize| -> f32 {
        let chances = drafting().flat_map(|sequence| sequence.draft_chances().iter().take(most));
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
        for sequence in running {
            sequence.keep_drafts(shortest);
        }
    }
}
