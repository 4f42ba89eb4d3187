//! Drafts tokens for the sequences that decode, as many as are worth their rows.

use super::drafter::Drafter;
use super::drafting::Drafting;
use super::worth::{LinearCost, Steps, Yield};
use crate::backend::{Backend, DraftSupport};
use crate::protocol::SequenceId;
use crate::schedule::cost::{CostModel, StepSize};

/// What the engine drafts with.
pub(crate) struct Drafts<'a> {
    /// The draft model or the MTP layers, if there are any.
    drafter: Option<Drafter<'a>>,
    /// Whether all sequences that decode have to draft equally many tokens.
    same_length: bool,
    /// Whether they draft only where that saves time.
    controlled: bool,
}

impl<'a> Drafts<'a> {
    /// Drafts for a main model, with a draft model or without: where that saves time if they are
    /// `controlled`, or as many as asked for.
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

    /// Drafts for the next step. The draft model does so only in steps without prompts, which come
    /// before drafts; `admits` says that the next step may admit one.
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
        // Before the first step without drafts, nobody knows what they could save.
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

    /// Whether the main model's hidden states are wanted, of sequences that draft with its MTP layers.
    pub(crate) fn wants_hidden(&self) -> bool {
        self.drafter.as_ref().is_some_and(Drafter::wants_hidden)
    }

    /// Takes over hidden states of a step: whose tokens, at which positions, and a row for each.
    pub(crate) fn keep_hidden(&mut self, tokens: &[(SequenceId, u32)], rows: &[f32]) {
        if let Some(drafter) = &mut self.drafter {
            drafter.keep_hidden(tokens, rows);
        }
    }

    /// Gives up what the draft model has of a sequence.
    pub(crate) fn forget(&mut self, id: SequenceId) {
        if let Some(drafter) = &mut self.drafter {
            drafter.forget(id);
        }
    }
}

/// Gives up the drafts that are not worth their rows.
fn choose(running: &mut [impl Drafting], steps: &Steps) {
    let price = steps.price(0.0);
    for sequence in &mut *running {
        // A later draft's chance is never higher than an earlier one's.
        let chances = sequence.draft_chances();
        sequence.keep_drafts(chances.partition_point(|chance| *chance > price));
    }
    if steps.same_length {
        level(running, steps);
    }
}

/// Sequences that draft more than others take a pass of their own for it: levels the drafts unless
/// these passes pay.
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
