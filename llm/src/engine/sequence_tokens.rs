//! Choice of a sequence's next tokens, and their acceptance.

use std::time::Instant;

use super::sequence::{Sequence, UNLIMITED};
use crate::constrain::Ending;
use crate::model::vocab::Vocab;
use crate::protocol::{ErrorKind, FinishReason, GenerationError, StepOutput, Token};
use crate::sampler::{SampledToken, Scratch, is_set};
use crate::speculate::Drafting;

impl Sequence {
    /// Chooses a token from a row, `ahead` rows behind that of the last token, and updates the
    /// state with which the next row is sampled. `None` if there is no token to choose.
    pub(crate) fn choose(
        &mut self,
        logits: &[f32],
        ahead: u32,
        end_tokens: &[Token],
        scratch: &mut Scratch,
    ) -> Option<SampledToken> {
        let bans_end = self.bans_end(ahead);
        let mut banned = Vec::new();
        let mut allowed = None;
        match &self.matching {
            Some(matching) => {
                let mask = matching.mask(ahead as usize)?;
                allowed = Some(mask);
                // A complete text ends, however short it is.
                if bans_end && allows_others(mask, end_tokens) {
                    banned.extend_from_slice(end_tokens);
                }
            }
            None if bans_end => {
                banned.extend_from_slice(end_tokens);
                banned.extend_from_slice(&self.request.stop_tokens);
            }
            None => {}
        }
        let drawn = self.sampled.iter().rev().flatten();
        let drawn = drawn.map(|sampled| sampled.token);
        let before = &self.tokens[self.prompt_tokens as usize..];
        let said = drawn.chain(before.iter().rev().copied());
        banned.extend(self.request.bad_words.completed_behind(said));
        let forced = self.reasoning.as_ref().and_then(|it| it.forced());
        let sampled = match forced {
            Some(token) => self.sampler.forced(logits, token, scratch),
            None => self.sampler.sample(logits, allowed, &banned, scratch)?,
        };
        self.sampler.accept(sampled.token);
        if let Some(reasoning) = &mut self.reasoning {
            reasoning.accept(sampled.token);
        }
        if let Some(matching) = &mut self.matching {
            let is_end = end_tokens.contains(&sampled.token);
            let is_stop = !bans_end && self.request.stop_tokens.contains(sampled.token);
            matching.accept(sampled.token, is_end, is_stop);
        }
        Some(sampled)
    }

    /// Returns true if end tokens must not be chosen yet. `ahead` is the number of places behind
    /// the next token.
    fn bans_end(&self, ahead: u32) -> bool {
        // Nothing can follow the end of a constrained text, so the end is postponed instead of
        // ignored.
        self.generated() + ahead < self.request.min_tokens
            || (self.request.ignore_eos && self.is_constrained())
    }

    /// Computes the token masks for the rows of the next step.
    pub(crate) fn prepare_masks(&mut self) {
        let drafts = self.speculation.as_ref().map(|it| it.drafts());
        let end_banned_for = if self.request.ignore_eos {
            u32::MAX
        } else {
            self.request.min_tokens.saturating_sub(self.generated())
        };
        if let Some(matching) = &mut self.matching {
            let drafts = drafts.unwrap_or_default();
            matching.prepare(drafts, &self.request.stop_tokens, end_banned_for as usize);
        }
    }

    /// Returns how its text ended under the constraint; `None` without one or before its end.
    pub(super) fn ending(&self) -> Option<Ending> {
        self.matching.as_ref()?.ending()
    }

    /// Accepts the samples of a step in order, until one ends the text. Spends a credit and returns
    /// the output for the sink. `None` means that no token could be chosen from the logits.
    pub(crate) fn accept(
        &mut self,
        sampled: impl Iterator<Item = Option<SampledToken>>,
        vocab: &dyn Vocab,
        now: Instant,
    ) -> StepOutput {
        if self.request.credits != UNLIMITED {
            self.request.credits -= 1;
        }
        let before = self.tokens.len();
        let mut output = self.output(None, now);
        output.prompt_logprobs = self.prompt_logprobs.take();
        if self.remaining() == 0 {
            output.finish = Some(FinishReason::Length);
            return output;
        }
        let mut sampled = sampled.peekable();
        while let Some(next) = sampled.next() {
            let Some(SampledToken { token, logprob }) = next else {
                output.finish = Some(FinishReason::Error(self.nothing_to_choose()));
                break;
            };
            // Under a constraint, only the last token can be the end.
            let ending = self.ending().filter(|_| sampled.peek().is_none());
            self.tokens.push(token);
            if let Some(speculation) = &mut self.speculation {
                speculation.observe(&self.tokens);
            }
            let ends = match &self.matching {
                Some(_) => ending == Some(Ending::EndToken),
                None => {
                    self.request.stop_tokens.contains(token)
                        || (!self.request.ignore_eos && vocab.is_eog(token))
                }
            };
            if ends {
                output.end_token = Some(token);
                output.logprobs.extend(logprob);
                output.finish = Some(FinishReason::Stop);
                break;
            }
            output.tokens.push(token);
            output.logprobs.extend(logprob);
            if ending.is_some() {
                output.finish = Some(FinishReason::Stop);
                break;
            }
            if self.remaining() == 0 {
                output.finish = Some(FinishReason::Length);
                break;
            }
        }
        if let Some(speculation) = &mut self.speculation {
            speculation.settle(&self.tokens[before..]);
        }
        if let Some(matching) = &mut self.matching {
            matching.forget_masks();
        }
        output.usage = self.usage(now);
        output
    }

    /// Explains why no token could be chosen.
    fn nothing_to_choose(&self) -> GenerationError {
        match self.matching.as_ref().and_then(|it| it.failure()) {
            Some(failure) => GenerationError::new(
                ErrorKind::Constraint,
                format!("the constraint of the text cannot be enforced any further: {failure}"),
            ),
            None if self.sampler.is_restricted() || !self.request.bad_words.is_empty() => {
                GenerationError::new(
                    ErrorKind::Constraint,
                    "`allowed_token_ids` and `bad_words` leave no token that could follow",
                )
            }
            None => self.no_finite_logit(),
        }
    }
}

/// Returns true if a mask allows a token other than these. The tokens must be distinct.
fn allows_others(mask: &[u32], tokens: &[Token]) -> bool {
    let all: u32 = mask.iter().map(|word| word.count_ones()).sum();
    let set = tokens.iter().filter(|token| is_set(mask, **token as usize));
    all as usize > set.count()
}
