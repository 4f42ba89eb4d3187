//! Speculation: guesses the next tokens of a sequence, so that one step can check several at once.
//!
//! The guesses (drafts) ride in the step's batch behind the sequence's last token, with logits at each. The sampler then goes over
//! these logits in order as if each were a step of its own, and goes on while the token it takes is the one that was drafted. So
//! what is generated is what would have been generated without drafts, to the same state of the random stream and the
//! penalties; only the number of steps differs.
//!
//! Drafts come from prompt lookup ([`lookup`]): the text is likely to go on as it did where its end has occurred before. Every
//! prediction is compared with what was generated, drafted or not ([`acceptance`]), so that knowing when to draft costs no step.
//! How many drafts a step takes follows from their chances and from what its rows cost ([`worth`]).

mod acceptance;
mod lookup;
mod worth;

use smallvec::SmallVec;

use acceptance::Acceptance;
use lookup::Lookup;
pub(crate) use worth::{LinearCost, worthwhile};

use crate::protocol::{DraftCounts, SpeculationParams, Token, Tokens};

/// What a sequence drafts, and how well.
#[derive(Debug)]
pub(crate) struct Speculation {
    params: SpeculationParams,
    lookup: Lookup,
    acceptance: Acceptance,
    /// The tokens drafted for the next step, in order.
    drafts: Tokens,
    /// The probability that each of them is accepted, all before it included.
    chances: SmallVec<[f32; 8]>,
    counts: DraftCounts,
}

impl Speculation {
    /// The state of a sequence with this prompt.
    pub(crate) fn new(params: SpeculationParams, prompt: &[Token]) -> Self {
        let mut lookup = Lookup::new(params.max_ngram_size as usize);
        lookup.follow(prompt);
        Self {
            params,
            lookup,
            acceptance: Acceptance::new(),
            drafts: Tokens::new(),
            chances: SmallVec::new(),
            counts: DraftCounts::default(),
        }
    }

    /// Drafts what may follow `text`, at most `limit` tokens.
    pub(crate) fn draft(&mut self, text: &[Token], limit: u32) {
        self.keep(0);
        let matched = self.lookup.matched();
        let mut chance = 1.0;
        for ahead in 0..self.params.num_assistant_tokens.min(limit) as usize {
            let Some(token) = self.lookup.predict(text, &self.drafts) else {
                return;
            };
            chance *= self.acceptance.chance(matched + ahead);
            self.drafts.push(token);
            self.chances.push(chance);
        }
    }

    /// Takes in that `text` now has one more token.
    pub(crate) fn observe(&mut self, text: &[Token]) {
        if let Some((last, before)) = text.split_last()
            && let Some(predicted) = self.lookup.predict(before, &[])
        {
            self.acceptance
                .observe(self.lookup.matched(), predicted == *last);
        }
        self.lookup.follow(text);
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
