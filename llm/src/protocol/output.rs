//! What the steps of a generation produce, and who receives it.

use std::time::{Duration, Instant};

use super::{GenerationError, Token, Tokens};

/// Receives what a sequence produces. It is called on the engine's delivery thread, in order, once
/// per step that produced something; the call that carries a [`StepOutput::finish`] is the last.
///
/// `deliver` must not block: all sequences of the engine share the thread that calls it.
pub trait StepSink: Send + Sync + 'static {
    /// Takes the output of one step.
    fn deliver(&self, output: StepOutput);
}

impl<F: Fn(StepOutput) + Send + Sync + 'static> StepSink for F {
    fn deliver(&self, output: StepOutput) {
        self(output);
    }
}

/// What one step produced for one sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOutput {
    /// New tokens of the text, in order. Empty when the step only ended the sequence.
    pub tokens: Tokens,
    /// The end token that finished the sequence; it is not part of the text.
    pub end_token: Option<Token>,
    /// One entry per token of `tokens` when log probabilities were asked for, and one for
    /// `end_token`; else empty.
    pub logprobs: Vec<TokenLogprob>,
    /// On the first output, one entry per prompt token but the first, if these were asked for.
    pub prompt_logprobs: Option<Vec<TokenLogprob>>,
    /// Set on the last output of a sequence.
    pub finish: Option<FinishReason>,
    /// Counts so far.
    pub usage: Usage,
    /// When the step had computed it; it may be delivered later.
    pub at: Instant,
}

/// The log probability of a chosen token and of the likeliest ones at its place.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The chosen token.
    pub token: Token,
    /// Its natural log probability under the model.
    pub logprob: f32,
    /// How many tokens are at least as likely, with itself: of tokens of a prompt.
    pub rank: Option<u32>,
    /// The most likely tokens with theirs, likeliest first.
    pub top: Vec<(Token, f32)>,
}

/// How many tokens a sequence has taken and made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Prompt tokens whose KV cells were reused from another sequence instead of computed.
    pub cached_tokens: u32,
    /// Tokens of the prompt that are positions of sounds.
    pub sound_tokens: u32,
    /// Tokens generated, the end token included.
    pub generated_tokens: u32,
    /// Time without a slot: from its submission to its admission, and while it was preempted.
    pub queued: Duration,
    /// What became of the drafted tokens, if the request asked for speculation.
    pub drafts: Option<DraftCounts>,
}

impl Usage {
    /// Drafted tokens that became part of the text; 0 without speculation.
    pub(crate) fn accepted_drafts(&self) -> u32 {
        self.drafts.map_or(0, |drafts| drafts.accepted)
    }
}

/// Drafted tokens that were computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DraftCounts {
    /// Those that became part of the text.
    pub accepted: u32,
    /// Those that did not.
    pub rejected: u32,
}

/// Why a sequence ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended the text, or a stop token came.
    Stop,
    /// `max_tokens` or the end of the context was reached.
    Length,
    /// The engine could not go on with this sequence.
    Error(GenerationError),
}
