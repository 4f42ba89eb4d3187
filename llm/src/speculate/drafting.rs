//! A sequence, as far as the engine drafts for it.

use crate::protocol::{SequenceId, Token};

/// What a sequence wants of the draft model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ModelDraft {
    /// Most tokens.
    pub(crate) limit: u32,
    /// The probability below which a token is not drafted.
    pub(crate) confidence_threshold: f32,
}

/// A running sequence, as far as drafts are concerned.
pub(crate) trait Drafting {
    fn id(&self) -> SequenceId;

    /// Prompt and generated tokens.
    fn tokens(&self) -> &[Token];

    /// Tokens that may still be generated.
    fn remaining(&self) -> u32;

    /// Whether it may have another output.
    fn has_credit(&self) -> bool;

    /// Whether its next token only awaits its last one's computation, and it may have it.
    fn decodes(&self) -> bool;

    /// Drafts tokens for the next step, if it asked for drafts from its text and the step decodes.
    fn draft(&mut self);

    /// What it wants of the draft model for the next step.
    fn model_draft(&self) -> Option<ModelDraft>;

    /// Adds a token of the draft model, with the chance that it and all before it are accepted.
    fn push_draft(&mut self, token: Token, chance: f32);

    /// Gives up the drafts that its constraint does not allow.
    fn cut_drafts(&mut self);

    /// Gives up the drafts after the first `count`.
    fn keep_drafts(&mut self, count: usize);

    /// The tokens drafted behind the last one.
    fn drafts(&self) -> &[Token];

    /// The probabilities that they are accepted.
    fn draft_chances(&self) -> &[f32];
}
