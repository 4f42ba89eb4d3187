//! The parts of a sequence that drafting needs.

use crate::protocol::{SequenceId, Token};

/// Request of a sequence to the draft model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ModelDraft {
    /// Maximum number of tokens to draft.
    pub(crate) limit: u32,
    /// Minimum probability of a drafted token.
    pub(crate) confidence_threshold: f32,
}

/// A running sequence, from the view of drafting.
pub(crate) trait Drafting {
    fn id(&self) -> SequenceId;

    /// Tokens of the prompt, followed by the generated ones.
    fn tokens(&self) -> &[Token];

    /// Maximum number of tokens that may still be generated.
    fn remaining(&self) -> u32;

    /// Returns true if the sequence may have another output.
    fn has_credit(&self) -> bool;

    /// Returns true if only its last token is not computed yet, and it may have the next one.
    fn decodes(&self) -> bool;

    /// Drafts tokens for the next step, if it asked for drafts from its text and the step decodes.
    fn draft(&mut self);

    /// Its request to the draft model for the next step.
    fn model_draft(&self) -> Option<ModelDraft>;

    /// Adds a token of the draft model, with the probability that it and all before it are
    /// accepted.
    fn push_draft(&mut self, token: Token, chance: f32);

    /// Drops the drafts that its constraint does not allow.
    fn cut_drafts(&mut self);

    /// Drops the drafts after the first `count`.
    fn keep_drafts(&mut self, count: usize);

    /// The tokens drafted behind the last one, in order.
    fn drafts(&self) -> &[Token];

    /// The probabilities that each draft and all before it are accepted.
    fn draft_chances(&self) -> &[f32];
}
