//! Fields of OpenLLM's `generate`. Its parameters, which are fields of completions, are in `llm_config`. Clients send all parameters that they know.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::shapes;
use crate::schema::Plain;

/// Fields at the top level of the body.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OpenLlm {
    /// Text to continue, as in `prompt` of completions.
    #[schemars(length(min = 1))]
    pub prompt: Option<String>,
    /// Object with `max_new_tokens` and any other field of completions. If a field is given under two names, the last one wins.
    pub llm_config: Map<String, Value>,
    /// Identifier that the answer repeats.
    pub request_id: Option<String>,
}

/// Fields of completions with other limits.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LlmConfig {
    /// Maximum number of tokens of the text.
    #[schemars(schema_with = "shapes::limit::<1>")]
    pub max_tokens: Option<i64>,
}

/// Fields that need no reading.
pub(super) const PLAIN: &[Plain] = &plain! {
    /// Alternative name of `max_tokens`.
    "max_new_tokens": Alias("max_tokens"),
    /// Alternative name of `min_tokens`.
    "min_new_tokens": Alias("min_tokens"),
    /// Adapters are selected by name in `model` of other dialects.
    "adapter_name": Only(&[]),
    /// The prompt is in `prompt`.
    "prompt_token_ids": Only(&[]),
    /// Only one text is generated.
    "n": Only(&["1"]),
    /// Only one text is generated.
    "best_of": Only(&["1"]),
    /// Only one text is generated.
    "num_return_sequences": Only(&["1"]),
    /// Beam search is not supported: tokens are sampled.
    "num_beams": Only(&["1"]),
    /// Beam search is not supported: tokens are sampled.
    "num_beam_groups": Only(&["1"]),
    /// There is always a cache.
    "use_cache": Only(&["true"]),
    /// Prompts have no separate penalty.
    "encoder_repetition_penalty": Only(&["1"]),
    /// The answer is always text.
    "detokenize": Only(&["true"]),
    /// The answer contains only the sum, in `cumulative_logprob`.
    "logprobs": Only(&[]),
};
