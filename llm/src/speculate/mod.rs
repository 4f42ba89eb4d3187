//! Speculation: guesses the next tokens of a sequence, so that one step can check several at once.
//!
//! The guesses (drafts) ride in the step's batch behind the sequence's last token, with logits at each. The sampler then goes over
//! these logits in order as if each were a step of its own, and goes on while the token it takes is the one that was drafted. So
//! what is generated is what would have been generated without drafts, to the same state of the random stream and the
//! penalties; only the number of steps differs.
//!
//! Drafts come from one of two sources:
//!
//! - **Prompt lookup** ([`lookup`]): the text is likely to go on as it did where its end has occurred before. Every prediction is
//!   compared with what was generated, drafted or not ([`acceptance`]), so that knowing when to draft costs no step.
//! - **A draft model** ([`drafter`]). How often it is right is learned from what it drafted ([`confidence`]), for each
//!   sequence, and for all together as what the next one begins with.
//!
//! How many drafts a step takes follows from their chances and from what its rows cost ([`worth`]).

mod acceptance;
mod confidence;
mod drafter;
mod drafts;
mod lookup;
mod place;
mod share;
mod worth;

use smallvec::SmallVec;

use acceptance::Acceptance;
use confidence::Confidence;
pub(crate) use drafts::Drafts;
use lookup::Lookup;
use worth::{LinearCost, Yield, worthwhile};

use crate::protocol::{DraftCounts, DraftSource, SequenceId, SpeculationParams, Token, Tokens};

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

/// What a sequence drafts, and how well.
#[derive(Debug)]
pub(crate) struct Speculation {
    /// Most tokens drafted in a step.
    most: u32,
    source: Source,
    /// The tokens drafted for the next step, in order.
    drafts: Tokens,
    /// The probability that each of them is accepted, all before it included.
    chances: SmallVec<[f32; 8]>,
    counts: DraftCounts,
}

/// Where drafts come from, and what is known for that.
#[derive(Debug)]
enum Source {
    Text {
        lookup: Lookup,
        acceptance: Acceptance,
    },
    Model {
        confidence_threshold: f32,
    },
}

/// What a sequence wants of the draft model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ModelDraft {
    /// Most tokens.
    pub(crate) limit: u32,
    /// The probability below which a token is not drafted.
    pub(crate) confidence_threshold: f32,
}

impl Speculation {
    /// The state of a sequence with this prompt.
    pub(crate) fn new(params: SpeculationParams, prompt: &[Token]) -> Self {
        let source = match params.source {
            DraftSource::Text { max_ngram_size } => {
                let mut lookup = Lookup::new(max_ngram_size as usize);
                lookup.follow(prompt);
                Source::Text {
                    lookup,
                    acceptance: Acceptance::new(),
                }
            }
            DraftSource::Model {
                confidence_threshold,
            } => Source::Model {
                confidence_threshold,
            },
        };
        Self {
            most: params.num_assistant_tokens,
            source,
            drafts: Tokens::new(),
            chances: SmallVec::new(),
            counts: DraftCounts::default(),
        }
    }

    /// Forgets the drafts, and drafts anew what may follow `text`, at most `limit` tokens, if the text is where drafts come from.
    pub(crate) fn draft(&mut self, text: &[Token], limit: u32) {
        self.keep(0);
        let Source::Text { lookup, acceptance } = &self.source else {
            return;
        };
        let matched = lookup.matched();
        let mut chance = 1.0;
        for ahead in 0..self.most.min(limit) as usize {
            let Some(token) = lookup.predict(text, &self.drafts) else {
                return;
            };
            chance *= acceptance.chance(matched + ahead);
            self.drafts.push(token);
            self.chances.push(chance);
        }
    }

    /// What the sequence wants of the draft model where at most `limit` tokens are of use; `None` if nothing.
    pub(crate) fn model_draft(&self, limit: u32) -> Option<ModelDraft> {
        match self.source {
            Source::Model {
                confidence_threshold,
            } if limit > 0 => Some(ModelDraft {
                limit: self.most.min(limit),
                confidence_threshold,
            }),
            _ => None,
        }
    }

    /// Adds a token of the draft model, with the chance that it and all before it are accepted.
    pub(crate) fn push(&mut self, token: Token, chance: f32) {
        self.drafts.push(token);
        self.chances.push(chance);
    }

    /// Takes in that `text` now has one more token.
    pub(crate) fn observe(&mut self, text: &[Token]) {
        let Source::Text { lookup, acceptance } = &mut self.source else {
            return;
        };
        if let Some((last, before)) = text.split_last()
            && let Some(predicted) = lookup.predict(before, &[])
        {
            acceptance.observe(lookup.matched(), predicted == *last);
        }
        lookup.follow(text);
    }

    /// Counts what became of the drafts, now that the step generated `tokens`, and forgets them.
    pub(crate) fn settle(&mut self, tokens: &[Token]) {
        let pairs = self.drafts.iter().zip(tokens);
        let accepted = pairs.take_while(|(draft, token)| draft == token).count();
        self.counts.accepted += accepted as u32;
        self.counts.rejected += (self.drafts.len() - accepted) as u32;
        self.keep(0);
    }

    /// What became of all drafts so far.
    pub(crate) fn counts(&self) -> DraftCounts {
        self.counts
    }

    /// Keeps the first `count` drafts.
    pub(crate) fn keep(&mut self, count: usize) {
        self.drafts.truncate(count);
        self.chances.truncate(count);
    }

    pub(crate) fn drafts(&self) -> &[Token] {
        &self.drafts
    }

    pub(crate) fn chances(&self) -> &[f32] {
        &self.chances
    }
}

#[cfg(test)]
mod tests;
