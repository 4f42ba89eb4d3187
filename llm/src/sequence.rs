//! One generation inside the engine: its tokens, its cells, its credit and how it ends.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::backend::Slot;
use crate::cache::{Held, ShareGroup};
use crate::measure::Moments;
use crate::protocol::{
    ErrorKind, FinishReason, GenerationError, GenerationRequest, SequenceId, StepOutput, StepSink,
    Token, TokenLogprob, Tokens, Usage,
};
use crate::sampler::{Sampled, Sampler};
use crate::schedule::Row;
use crate::speculate::{ModelDraft, Speculation};
use crate::vocab::Vocab;

/// A sequence from its submission to its end.
pub(crate) struct Sequence {
    pub(crate) id: SequenceId,
    /// See [`Row::rank`].
    rank: i64,
    pub(crate) submitted: Instant,
    /// Prompt and generated tokens.
    pub(crate) tokens: Vec<Token>,
    /// Cells held: the first `computed` tokens have theirs. Zero without a slot.
    pub(crate) computed: u32,
    pub(crate) slot: Option<Slot>,
    /// The cells themselves.
    pub(crate) held: Held,
    /// Shares cells with sequences of the same group only, and computes with its adapter.
    pub(crate) group: ShareGroup,
    pub(crate) last_step: u64,
    pub(crate) sampler: Sampler,
    /// Present if the request asked for it.
    pub(crate) speculation: Option<Box<Speculation>>,
    /// The rows of logits that the step computed for it: of its last token and of its drafts. Empty between steps.
    pub(crate) rows: Range<usize>,
    /// The rows of prompt tokens whose successors' log probabilities are asked for, before those. Empty between steps.
    pub(crate) prompt_rows: Range<usize>,
    /// Present as long as log probabilities of the prompt are to be found.
    pub(crate) prompt_logprobs: Option<PromptLogprobs>,
    /// What was chosen from `rows`; `None` if no logit was finite.
    pub(crate) sampled: SmallVec<[Option<Sampled>; 1]>,
    /// Whether it was admitted before, so that it no longer counts against the bound of the queue.
    pub(crate) was_admitted: bool,
    pub(crate) sink: Arc<dyn StepSink>,
    pub(crate) moments: Moments,
    prompt_tokens: u32,
    /// Tokens of the prompt that were taken over when it was first admitted.
    cached_tokens: u32,
    /// Most tokens, prompt and generated.
    token_limit: u32,
    min_tokens: u32,
    stop_tokens: FxHashSet<Token>,
    ignore_eos: bool,
    credits: u32,
}

/// The log probabilities of a prompt's tokens, as far as they are known.
pub(crate) struct PromptLogprobs {
    /// How many of the most likely tokens are told of.
    pub(crate) top: usize,
    /// Of the second token, and those after it.
    pub(crate) found: Vec<TokenLogprob>,
}

/// The credit of a sequence whose graph has no loop.
const UNLIMITED: u32 = u32::MAX;

impl Sequence {
    /// A sequence whose prompt leaves room for at least one token of the `context`.
    pub(crate) fn new(
        id: SequenceId,
        rank: i64,
        request: GenerationRequest,
        group: ShareGroup,
        context: u32,
    ) -> Self {
        let prompt_tokens = request.prompt.len() as u32;
        let token_limit = match request.max_tokens {
            Some(max_tokens) => prompt_tokens.saturating_add(max_tokens).min(context),
            None => context,
        };
        Self {
            id,
            rank,
            submitted: Instant::now(),
            sampler: Sampler::new(request.sampling, &request.prompt),
            speculation: request
                .speculation
                .map(|params| Box::new(Speculation::new(params, &request.prompt))),
            tokens: request.prompt,
            computed: 0,
            slot: None,
            rows: 0..0,
            prompt_rows: 0..0,
            prompt_logprobs: request.prompt_logprobs.map(|top| PromptLogprobs {
                top: usize::from(top),
                found: Vec::new(),
            }),
            sampled: SmallVec::new(),
            held: Held::default(),
            group,
            cached_tokens: 0,
            last_step: 0,
            was_admitted: false,
            sink: Arc::from(request.sink),
            moments: Moments::now(),
            prompt_tokens,
            token_limit,
            min_tokens: request.min_tokens,
            stop_tokens: request.stop_tokens.into_iter().collect(),
            ignore_eos: request.ignore_eos,
            credits: request.credits,
        }
    }

    pub(crate) fn row(&self) -> Row {
        Row {
            id: self.id,
            rank: self.rank,
            tokens: self.tokens.len() as u32,
            computed: self.computed,
            owned: self.computed,
            deferred: false,
            remaining: self.remaining(),
            drafts: self.drafts().len() as u32,
            has_credit: self.has_credit(),
            last_step: self.last_step,
        }
    }

    /// Whether a step that computes the token at this position has to give its logits: they choose the next token, or tell how
    /// likely the prompt's next token was.
    pub(crate) fn wants_row(&self, position: u32) -> bool {
        position + 1 >= self.tokens.len() as u32 || self.wants_prompt_row(position)
    }

    /// Whether the row tells how likely the prompt's next token was, and that is not known.
    pub(crate) fn wants_prompt_row(&self, position: u32) -> bool {
        let found = |wanted: &PromptLogprobs| wanted.found.len() as u32;
        let unknown = self.prompt_logprobs.as_ref().map(found);
        position + 1 < self.prompt_tokens && unknown.is_some_and(|unknown| position >= unknown)
    }

    /// The first tokens, whose cells may come from other sequences. The last token is computed in any case: its logits choose the
    /// next one. So are those whose logits tell how likely the prompt is.
    pub(crate) fn shareable(&self) -> &[Token] {
        let end = match &self.prompt_logprobs {
            Some(wanted) => wanted.found.len(),
            None => self.tokens.len() - 1,
        };
        &self.tokens[..end]
    }

    pub(crate) fn has_credit(&self) -> bool {
        self.credits > 0
    }

    /// Remembers, for the usage, how much of the prompt it need not compute; returns the number.
    pub(crate) fn count_cached(&mut self) -> u32 {
        self.cached_tokens = self.computed.min(self.prompt_tokens);
        self.cached_tokens
    }

    pub(crate) fn grant(&mut self, credits: u32) {
        self.credits = self.credits.saturating_add(credits);
    }

    /// Whether tokens that end the text must not be chosen yet for the token that is `ahead` places behind the next one.
    pub(crate) fn bans_end(&self, ahead: u32) -> bool {
        self.generated() + ahead < self.min_tokens
    }

    /// Tokens that end the text besides the model's end tokens.
    pub(crate) fn stop_tokens(&self) -> impl ExactSizeIterator<Item = Token> + '_ {
        self.stop_tokens.iter().copied()
    }

    /// Whether its next token only awaits its last one's computation, and it may have it.
    pub(crate) fn decodes(&self) -> bool {
        self.credits > 0 && self.tokens.len() as u32 == self.computed + 1
    }

    /// Drafts tokens for the next step, if it asked for drafts from its text and the step decodes.
    pub(crate) fn draft(&mut self) {
        let limit = self.useful_drafts();
        if let Some(speculation) = &mut self.speculation {
            speculation.draft(&self.tokens, limit);
        }
    }

    /// What it wants of the draft model for the next step.
    pub(crate) fn model_draft(&self) -> Option<ModelDraft> {
        self.speculation.as_ref()?.model_draft(self.useful_drafts())
    }

    /// Adds a token of the draft model, with the chance that it and all before it are accepted.
    pub(crate) fn push_draft(&mut self, token: Token, chance: f32) {
        if let Some(speculation) = &mut self.speculation {
            speculation.push(token, chance);
        }
    }

    /// Drafts that the next step could use: if it decodes, it gives one token more than it has drafts that are accepted.
    fn useful_drafts(&self) -> u32 {
        if self.decodes() {
            self.remaining().saturating_sub(1)
        } else {
            0
        }
    }

    /// The tokens drafted behind the last one.
    pub(crate) fn drafts(&self) -> &[Token] {
        self.speculation
            .as_ref()
            .map_or(&[], |speculation| speculation.drafts())
    }

    /// The probabilities that they are accepted.
    pub(crate) fn draft_chances(&self) -> &[f32] {
        self.speculation
            .as_ref()
            .map_or(&[], |speculation| speculation.chances())
    }

    /// Gives up the drafts whose chance is below `least`.
    pub(crate) fn keep_drafts_of(&mut self, least: f32) {
        // A later draft's chance is never higher than an earlier one's.
        let chances = self.draft_chances();
        self.keep_drafts(chances.partition_point(|chance| *chance >= least));
    }

    /// Gives up the drafts after the first `count`.
    pub(crate) fn keep_drafts(&mut self, count: usize) {
        if let Some(speculation) = &mut self.speculation {
            speculation.keep(count);
        }
    }

    /// Tokens of the prompt that have no cell yet.
    pub(crate) fn prompt_left(&self) -> u32 {
        self.prompt_tokens.saturating_sub(self.computed)
    }

    /// Takes in what was sampled in a step, in order, until something ends the text; spends a credit and says what goes to the
    /// sink. `None` stands for logits that no token could be taken from.
    pub(crate) fn accept(
        &mut self,
        sampled: impl Iterator<Item = Option<Sampled>>,
        vocab: &dyn Vocab,
    ) -> StepOutput {
        if self.credits != UNLIMITED {
            self.credits -= 1;
        }
        let before = self.tokens.len();
        let mut output = self.output(None);
        output.prompt_logprobs = self.prompt_logprobs.take().map(|wanted| wanted.found);
        if self.remaining() == 0 {
            output.finish = Some(FinishReason::Length);
            return output;
        }
        for sampled in sampled {
            let Some(Sampled { token, logprob }) = sampled else {
                output.finish = Some(FinishReason::Error(GenerationError {
                    kind: ErrorKind::Internal,
                    message: "the model gave no finite logit".to_owned(),
                }));
                break;
            };
            self.tokens.push(token);
            if let Some(speculation) = &mut self.speculation {
                speculation.observe(&self.tokens);
            }
            if self.stop_tokens.contains(&token) || (!self.ignore_eos && vocab.is_eog(token)) {
                output.end_token = Some(token);
                output.logprobs.extend(logprob);
                output.finish = Some(FinishReason::Stop);
                break;
            }
            output.tokens.push(token);
            output.logprobs.extend(logprob);
            if self.remaining() == 0 {
                output.finish = Some(FinishReason::Length);
                break;
            }
        }
        if let Some(speculation) = &mut self.speculation {
            speculation.settle(&self.tokens[before..]);
        }
        output.usage = self.usage();
        output
    }

    /// The last output of a sequence that ends without a token.
    pub(crate) fn end(&self, finish: FinishReason) -> StepOutput {
        self.output(Some(finish))
    }

    fn output(&self, finish: Option<FinishReason>) -> StepOutput {
        StepOutput {
            tokens: Tokens::new(),
            end_token: None,
            logprobs: Vec::new(),
            prompt_logprobs: None,
            finish,
            usage: self.usage(),
        }
    }

    /// Tokens that may still be generated.
    pub(crate) fn remaining(&self) -> u32 {
        self.token_limit - self.tokens.len() as u32
    }

    fn generated(&self) -> u32 {
        self.tokens.len() as u32 - self.prompt_tokens
    }

    /// Counts so far.
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.prompt_tokens,
            cached_tokens: self.cached_tokens,
            generated_tokens: self.generated(),
            drafts: self
                .speculation
                .as_ref()
                .map(|speculation| speculation.counts()),
        }
    }
}
