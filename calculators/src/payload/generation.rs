//! Parameters of generation.

use std::borrow::Cow;
use std::sync::Arc;

use super::{
    CompiledConstraint, Constraint, NamedAdapter, QueuePlace, ReasoningLimit, SamplingParams,
    Tenant, TokenSet,
};

/// Treatment of tokens that steer the model, such as the marks around a tool call, in text.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum SpecialTokens {
    /// They are left out.
    #[default]
    Skip,
    /// Only those are spelled out that the model's parsers look for.
    Markers,
    /// They are spelled out.
    Keep,
}

/// Parameters that the tokens of a request are generated with.
#[derive(Clone, Debug, Default)]
pub struct GenerationParams {
    /// The choice of each token.
    pub sampling: SamplingParams,
    /// Most tokens to generate for each choice; none when the request does not say.
    pub max_tokens: Option<u32>,
    /// Tokens to generate before the model may end the text.
    pub min_tokens: u32,
    /// Strings that end the text where they appear.
    pub stop: Vec<String>,
    /// True if the string that ended the text is part of it.
    pub include_stop: bool,
    /// Tokens that end the text.
    pub stop_tokens: TokenSet,
    /// True if generation goes on after the model's end token.
    pub ignore_eos: bool,
    /// Words that the text does not have.
    pub bad_words: Vec<String>,
    /// The part of a prompt that is read; none if all of it is.
    pub truncation: Option<Truncation>,
    /// Generations of each prompt.
    pub n: u32,
    /// Most tokens drafted in a step, 0 for none; none when the request does not say.
    pub num_assistant_tokens: Option<u32>,
    /// The probability below which a draft model's token is not drafted; none when the request does
    /// not say.
    pub assistant_confidence_threshold: Option<f32>,
    /// Longest run of tokens that prompt lookup searches for; none when the request does not say.
    pub max_ngram_size: Option<u32>,
    /// Computed prompts are shared only with requests that have the same salt; empty for those that
    /// have none.
    pub cache_salt: Arc<str>,
    /// The adapters that change the model for this request.
    pub adapters: Arc<[NamedAdapter]>,
    /// Who goes first when not all can: the higher.
    pub priority: i32,
    /// Who it is scheduled for, where tenants are told apart.
    pub tenant: Option<Tenant>,
    /// Its place in the engine's queue, if it took one before its prompt was made.
    pub place: Option<Arc<QueuePlace>>,
    /// True if the prompt is repeated before the answer.
    pub echo: bool,
    /// True if the ids of tokens are told, those of the prompt and of the text.
    pub token_ids: bool,
    /// Number of the likeliest tokens that are told of at each place of the prompt.
    pub prompt_logprobs: Option<u8>,
    /// Special tokens in the text.
    pub special_tokens: SpecialTokens,
    /// Most tokens of reasoning, until the `OutputFormatCalculator` makes a limit of them; none
    /// when the request does not say.
    pub reasoning_budget: Option<u32>,
    /// The limit of reasoning, in the format of the model.
    pub reasoning_limit: Option<ReasoningLimit>,
    /// True if the request demands a call of a tool and nothing holds the text to it yet.
    pub demands_call: bool,
    /// True if calls of tools can only be right, because `constraint` says how they look.
    pub constrains_calls: bool,
    /// The pattern that the text has to match; none if it is free.
    pub constraint: Option<TextConstraint>,
}

/// A part of a prompt.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// The field of the request that asks for it; errors name it.
    pub field: &'static str,
    /// Maximum number of tokens; `None` leaves room for the answer in the model's context.
    pub tokens: Option<u32>,
    /// Room for the answer, in tokens.
    pub room: u32,
    /// True if the beginning of the prompt is kept, false if its end is.
    pub keeps_beginning: bool,
}

/// A pattern that a text has to match, and who says so.
#[derive(Clone, Debug)]
pub struct TextConstraint {
    /// The field of the request that asks for it; errors name it.
    pub field: Cow<'static, str>,
    /// The pattern.
    pub constraint: Constraint,
    /// The same, compiled for the model: filled in by the `ConstraintCalculator`.
    pub compiled: Option<CompiledConstraint>,
}
