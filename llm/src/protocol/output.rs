//! Outputs of a generation's steps, and their receiver.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{GenerationError, Token, Tokens};

/// Receiver of a sequence's outputs. It is called on the engine's delivery thread, in order, once
/// per step with an output; the call with a [`StepOutput::finish`] is the last.
///
/// `deliver` must not block: all sequences of the engine share the thread that calls it.
pub trait StepSink: Send + Sync + 'static {
    /// Receives the output of one step.
    fn deliver(&self, output: StepOutput);
}

impl<F: Fn(StepOutput) + Send + Sync + 'static> StepSink for F {
    fn deliver(&self, output: StepOutput) {
        self(output);
    }
}

/// Output of one step for one sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOutput {
    /// New tokens of the text, in order. Empty if the step only ended the sequence.
    pub tokens: Tokens,
    /// The end token that finished the sequence; it is not part of the text.
    pub end_token: Option<Token>,
    /// One entry per token of `tokens`, and one for `end_token`, if log probabilities were
    /// requested; otherwise empty.
    pub logprobs: Vec<TokenLogprob>,
    /// On the first output, one entry per prompt token but the first, if requested.
    pub prompt_logprobs: Option<Vec<TokenLogprob>>,
    /// Reason of the end; set on the last output of a sequence only.
    pub finish: Option<FinishReason>,
    /// Token counts and times of the sequence so far.
    pub usage: Usage,
    /// Time at which the step had computed it; it may be delivered later.
    pub at: Instant,
}

impl StepOutput {
    /// Creates an output without a token.
    pub(crate) fn empty(finish: Option<FinishReason>, usage: Usage, at: Instant) -> Self {
        Self {
            tokens: Tokens::new(),
            end_token: None,
            logprobs: Vec::new(),
            prompt_logprobs: None,
            finish,
            usage,
            at,
        }
    }
}

/// Log probabilities of a chosen token and of the most likely tokens at its place.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The chosen token, or the token of the prompt.
    pub token: Token,
    /// Natural log probability of the token under the model.
    pub logprob: f32,
    /// Number of tokens that are at least as likely, including itself; only for prompt tokens.
    pub rank: Option<u32>,
    /// The most likely tokens with their log probabilities, most likely first.
    pub top: Vec<(Token, f32)>,
}

/// Token counts and times of a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Number of tokens in the prompt.
    pub prompt_tokens: u32,
    /// Number of prompt tokens whose KV cells were reused from another sequence.
    pub cached_tokens: u32,
    /// Number of generated tokens, including the end token.
    pub generated_tokens: u32,
    /// Number of prompt tokens that are positions of sounds.
    #[serde(skip_serializing_if = "is_zero")]
    pub sound_tokens: u32,
    /// Time without a slot: from its submission to its admission, and while it was preempted.
    #[serde(skip)]
    pub queued: Duration,
    /// Fate of the drafted tokens; `None` if the request did not ask for speculation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drafts: Option<DraftCounts>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Usage {
    /// Number of drafted tokens that became part of the text; 0 without speculation.
    pub(crate) fn accepted_drafts(&self) -> u32 {
        self.drafts.map_or(0, |drafts| drafts.accepted)
    }
}

/// Counts of drafted tokens that were computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DraftCounts {
    /// Number of drafts that became part of the text.
    pub accepted: u32,
    /// Number of drafts that were wrong.
    pub rejected: u32,
}

/// Reason for the end of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended the text, or a stop token was generated.
    Stop,
    /// The sequence reached `max_tokens` or the end of the context.
    Length,
    /// The engine could not continue the sequence.
    Error(GenerationError),
}
