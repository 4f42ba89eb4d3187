//! Fields of OpenLLM's `generate`. Its parameters, which are those of completions, are in
//! `llm_config`, of which clients send all that they know.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::shapes;
use crate::schema::Plain;

/// Fields that are beside each other.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OpenLlm {
    /// Beginning that the text goes on from.
    #[schemars(length(min = 1))]
    pub prompt: Option<String>,
    /// Holds `max_new_tokens` and any other field of completions. Of a field with two names, the last one counts.
    pub llm_config: Map<String, Value>,
    /// Is repeated in the answer.
    pub request_id: Option<String>,
}

/// Fields that are those of completions, but for what they can be.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Parameters {
    /// Maximum number of tokens of the text.
    #[schemars(schema_with = "shapes::limit::<1>")]
    pub max_tokens: Option<i64>,
}

/// The others; `stream` says if the answer is one.
pub(super) fn plain(stream: &'static [&'static str]) -> [Plain; 14] {
    plain! {
        /// The same as `max_tokens`.
        "max_new_tokens": Alias("max_tokens"),
        /// The same as `min_tokens`.
        "min_new_tokens": Alias("min_tokens"),
        /// Adapters have names of their own in `model` of other dialects.
        "adapter_name": Only(&[]),
        /// The prompt is in `prompt`.
        "prompt_token_ids": Only(&[]),
        /// There is one text.
        "n": Only(&["1"]),
        /// There is one text.
        "best_of": Only(&["1"]),
        /// There is one text.
        "num_return_sequences": Only(&["1"]),
        /// Tokens are sampled, one text a choice.
        "num_beams": Only(&["1"]),
        /// Tokens are sampled, one text a choice.
        "num_beam_groups": Only(&["1"]),
        /// There is always a cache.
        "use_cache": Only(&["true"]),
        /// Prompts have no penalty of their own.
        "encoder_repetition_penalty": Only(&["1"]),
        /// The answer is a text.
        "detokenize": Only(&["true"]),
        /// The answer tells the sum alone, in `cumulative_logprob`.
        "logprobs": Only(&[]),
        /// The path says whether the answer is a stream.
        "stream": Only(stream),
    }
}
