//! One generation inside the engine: its tokens, its cells, its credit and how it ends.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::backend::Slot;
use crate::protocol::{
    FinishReason, GenerationRequest, SequenceId, StepOutput, StepSink, Token, Tokens, Usage,
};
use crate::sampler::{Sampled, Sampler};
use crate::schedule::Row;
use crate::vocab::Vocab;

/// A sequence from its submission to its end.
pub(crate) struct Sequence {
    pub(crate) id: SequenceId,
    /// Prompt and generated tokens.
    pub(crate) tokens: Vec<Token>,
    /// Cells held: the first `computed` tokens have theirs. Zero without a slot.
    pub(crate) computed: u32,
    pub(crate) slot: Option<Slot>,
    pub(crate) last_step: u64,
    pub(crate) sampler: Sampler,
    /// Whether it was admitted before, so that it no longer counts against the bound of the queue.
    pub(crate) was_admitted: bool,
    pub(crate) sink: Arc<dyn StepSink>,
    prompt_tokens: u32,
    /// Most tokens, prompt and generated.
    token_limit: u32,
    min_tokens: u32,
    stop_tokens: FxHashSet<Token>,
    ignore_eos: bool,
    credits: u32,
}

/// The credit of a sequence whose graph has no loop.
const UNLIMITED: u32 = u32::MAX;

impl Sequence {
    /// A sequence whose prompt leaves room for at least one token of the `context`.
    pub(crate) fn new(id: SequenceId, request: GenerationRequest, context: u32) -> Self {
        let prompt_tokens = request.prompt.len() as u32;
        let token_limit = match request.max_tokens {
            Some(max_tokens) => prompt_tokens.saturating_add(max_tokens).min(context),
            None => context,
        };
        Self {
            id,
            sampler: Sampler::new(request.sampling, &request.prompt),
            tokens: request.prompt,
            computed: 0,
            slot: None,
            last_step: 0,
            was_admitted: false,
            sink: Arc::from(request.sink),
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
            tokens: self.tokens.len() as u32,
            computed: self.computed,
            owned: self.computed,
            deferred: false,
            remaining: self.token_limit - self.tokens.len() as u32,
            drafts: 0,
            has_credit: self.credits > 0,
            last_step: self.last_step,
        }
    }

    pub(crate) fn grant(&mut self, credits: u32) {
        self.credits = self.credits.saturating_add(credits);
    }

    /// Whether the model's end tokens must not be chosen yet.
    pub(crate) fn bans_end(&self) -> bool {
        self.generated() < self.min_tokens
    }

    /// Tokens of the prompt that have no cell yet.
    pub(crate) fn prompt_left(&self) -> u32 {
        self.prompt_tokens.saturating_sub(self.computed)
    }

    /// Takes a sampled token in, spends a credit and says what goes to the sink.
    pub(crate) fn accept(&mut self, sampled: Sampled, vocab: &dyn Vocab) -> StepOutput {
        let token = sampled.token;
        self.tokens.push(token);
        self.sampler.accept(token);
        if self.credits != UNLIMITED {
            self.credits -= 1;
        }
        let ends = self.stop_tokens.contains(&token) || (!self.ignore_eos && vocab.is_eog(token));
        let finish = if ends {
            Some(FinishReason::Stop)
        } else if self.tokens.len() as u32 >= self.token_limit {
            Some(FinishReason::Length)
        } else {
            None
        };
        StepOutput {
            tokens: if ends {
                Tokens::new()
            } else {
                Tokens::from_slice(&[token])
            },
            end_token: ends.then_some(token),
            logprobs: sampled.logprob.filter(|_| !ends).into_iter().collect(),
            finish,
            usage: self.usage(),
        }
    }

    /// The last output of a sequence that ends without a token.
    pub(crate) fn end(&self, finish: FinishReason) -> StepOutput {
        StepOutput {
            tokens: Tokens::new(),
            end_token: None,
            logprobs: Vec::new(),
            finish: Some(finish),
            usage: self.usage(),
        }
    }

    fn generated(&self) -> u32 {
        self.tokens.len() as u32 - self.prompt_tokens
    }

    fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.prompt_tokens,
            cached_tokens: 0,
            generated_tokens: self.generated(),
        }
    }
}
