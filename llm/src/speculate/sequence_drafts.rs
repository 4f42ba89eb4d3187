//! Drafts of a sequence, and their success.

use smallvec::SmallVec;

use super::drafting::ModelDraft;
use super::learned::Acceptance;
use super::lookup::Lookup;
use crate::protocol::{DraftCounts, Token, Tokens};
use crate::protocol::{DraftSource, SpeculationParams};

/// Drafts of a sequence, and their success.
#[derive(Debug)]
pub(crate) struct Speculation {
    /// Maximum number of tokens drafted in a step.
    most: u32,
    source: SourceState,
    /// The tokens drafted for the next step, in order.
    drafts: Tokens,
    /// Probability of each draft that it and all before it are accepted.
    chances: SmallVec<[f32; 8]>,
    counts: DraftCounts,
}

/// Source of the drafts, with its state.
#[derive(Debug)]
enum SourceState {
    Text {
        lookup: Lookup,
        acceptance: Acceptance,
    },
    Model {
        confidence_threshold: f32,
    },
}

impl Speculation {
    /// Creates the state of a sequence with this prompt.
    pub(crate) fn new(params: SpeculationParams, prompt: &[Token]) -> Self {
        let source = match params.source {
            DraftSource::Text { max_ngram_size } => {
                let mut lookup = Lookup::new(max_ngram_size as usize);
                lookup.follow(prompt);
                SourceState::Text {
                    lookup,
                    acceptance: Acceptance::new(),
                }
            }
            DraftSource::Model {
                confidence_threshold,
            } => SourceState::Model {
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

    /// Limits the number of tokens drafted in a step.
    pub(crate) fn limit(&mut self, most: u32) {
        self.most = self.most.min(most);
    }

    /// Drops the drafts. If the text is the source, drafts its continuation, at most `limit`
    /// tokens.
    pub(crate) fn draft(&mut self, text: &[Token], limit: u32) {
        self.keep(0);
        let SourceState::Text { lookup, acceptance } = &self.source else {
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

    /// Returns the sequence's request to the draft model, if at most `limit` tokens are useful;
    /// `None` if it needs no tokens.
    pub(crate) fn model_draft(&self, limit: u32) -> Option<ModelDraft> {
        match self.source {
            SourceState::Model {
                confidence_threshold,
            } if limit > 0 => Some(ModelDraft {
                limit: self.most.min(limit),
                confidence_threshold,
            }),
            _ => None,
        }
    }

    /// Returns true if a draft model or the model's MTP layers draft.
    pub(crate) fn is_by_model(&self) -> bool {
        matches!(self.source, SourceState::Model { .. })
    }

    /// Adds a token of the draft model, with the probability that it and all before it are
    /// accepted.
    pub(crate) fn push(&mut self, token: Token, chance: f32) {
        self.drafts.push(token);
        self.chances.push(chance);
    }

    /// Notes that `text` has one more token.
    pub(crate) fn observe(&mut self, text: &[Token]) {
        let SourceState::Text { lookup, acceptance } = &mut self.source else {
            return;
        };
        if let Some((last, before)) = text.split_last()
            && let Some(predicted) = lookup.predict(before, &[])
        {
            acceptance.observe(lookup.matched(), predicted == *last);
        }
        lookup.follow(text);
    }

    /// Counts the accepted and rejected drafts after a step that generated `tokens`, and drops
    /// them.
    pub(crate) fn settle(&mut self, tokens: &[Token]) {
        let pairs = self.drafts.iter().zip(tokens);
        let accepted = pairs.take_while(|(draft, token)| draft == token).count();
        self.counts.accepted += accepted as u32;
        self.counts.rejected += (self.drafts.len() - accepted) as u32;
        self.keep(0);
    }

    /// Counts of all accepted and rejected drafts so far.
    pub(crate) fn counts(&self) -> DraftCounts {
        self.counts
    }

    /// Drops all drafts after the first `count`.
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
