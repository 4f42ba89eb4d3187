//! Parameters of generation.

use std::borrow::Cow;
use std::sync::Arc;

use super::{
    CompiledConstraint, Constraint, NamedAdapter, QueuePlace, ReasoningLimit, SamplingParams,
    Tenant, TokenSet,
};

/// Treatment of special tokens, such as the marks around a tool call, in text.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum SpecialTokens {
    /// Leaves all special tokens out of the text.
    #[default]
    Skip,
    /// Keeps only the ones that the model's parsers need.
    Markers,
    /// Keeps all special tokens as their text.
    Keep,
}

/// Parameters that the tokens of a request are generated with.
#[derive(Clone, Debug, Default)]
pub struct GenerationParams {
    /// Parameters of the choice of each token.
    pub sampling: SamplingParams,
    /// Maximum number of tokens of each choice; `None` if the request sets none.
    pub max_tokens: Option<u32>,
    /// Number of tokens before the model may end the text.
    pub min_tokens: u32,
    /// Strings that end the text where they appear.
    pub stop: Vec<String>,
    /// True if the text includes the stop string that ended it.
    pub include_stop: bool,
    /// Tokens that end the text.
    pub stop_tokens: TokenSet,
    /// True if generation goes on after the model's end token.
    pub ignore_eos: bool,
    /// Words that must not be in the text.
    pub bad_words: Vec<String>,
    /// The part of a prompt that is read; `None` if all of it is.
    pub truncation: Option<Truncation>,
    /// Number of choices for each prompt.
    pub n: u32,
    /// Maximum number of tokens drafted in a step; 0 switches drafts off. `None` if the request
    /// does not set it.
    pub num_assistant_tokens: Option<u32>,
    /// Minimum probability of a draft model's token: those below are not drafted. `None` if the
    /// request does not set it.
    pub assistant_confidence_threshold: Option<f32>,
    /// Length of the longest run of tokens that prompt lookup searches for; `None` if the request
    /// does not set it.
    pub max_ngram_size: Option<u32>,
    /// Salt: computed prompts are shared only with requests that have the same one. Empty if there
    /// is none.
    pub cache_salt: Arc<str>,
    /// Adapters that change the model for this request.
    pub adapters: Arc<[NamedAdapter]>,
    /// Priority: higher ones go first when not all requests can run.
    pub priority: i32,
    /// Tenant that it is scheduled for; `None` if tenants are not told apart.
    pub tenant: Option<Tenant>,
    /// Place in the engine's queue, if it took one before its prompt was made.
    pub place: Option<Arc<QueuePlace>>,
    /// True if the prompt is repeated before the answer.
    pub echo: bool,
    /// True if the answer has the ids of tokens, of the prompt and of the text.
    pub token_ids: bool,
    /// Number of the likeliest tokens to report at each place of the prompt.
    pub prompt_logprobs: Option<u8>,
    /// Treatment of special tokens in the text.
    pub special_tokens: SpecialTokens,
    /// Maximum number of tokens of reasoning, from which the `OutputFormatCalculator` makes a
    /// limit. `None` if the request does not set it.
    pub reasoning_budget: Option<u32>,
    /// The limit of reasoning, in the format of the model.
    pub reasoning_limit: Option<ReasoningLimit>,
    /// True if the request demands a tool call and no constraint enforces it yet.
    pub demands_call: bool,
    /// True if tool calls are always valid, because `constraint` enforces their format.
    pub constrains_calls: bool,
    /// The pattern that the text has to match; `None` if it is free.
    pub constraint: Option<TextConstraint>,
}

/// The part of a prompt that is read.
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

/// A pattern that a text has to match, and the field that asks for it.
#[derive(Clone, Debug)]
pub struct TextConstraint {
    /// The field of the request that asks for it; errors name it.
    pub field: Cow<'static, str>,
    /// The pattern, as the request describes it.
    pub constraint: Constraint,
    /// The pattern compiled for the model, from the `ConstraintCalculator`. `None` before that
    /// node.
    pub compiled: Option<CompiledConstraint>,
}
