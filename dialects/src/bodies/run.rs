//! Fields about how a request is run, and who sent it.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::schema::Plain;

/// Run of a request.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Run {
    /// The name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: String,
    /// Sends the answer as a stream of events.
    pub stream: bool,
    /// With `stream`: `include_usage` ends the stream with token counts, `continuous_usage_stats` has them in every event. `include_obfuscation` has no effect.
    #[schemars(extend("x-needs" = "stream"))]
    pub stream_options: Option<StreamOptions>,
    /// Seconds after which the request fails with status 504, or with an event where the stream has begun. The header `x-request-timeout-ms` says the same in milliseconds; the shorter counts.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub timeout: Option<f64>,
    /// Order of requests when not all can run: the highest first. From -10 to 10, unless the graph says otherwise.
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    pub priority: i32,
    /// Shares computed prefixes only with requests of the same salt.
    #[schemars(length(min = 1))]
    pub cache_salt: String,
    /// Maximum number of tokens drafted in a step; 0 drafts none.
    #[schemars(range(min = 0, max = 32))]
    pub num_assistant_tokens: Option<u32>,
    /// Longest run of tokens that prompt lookup searches for.
    #[schemars(range(min = 1, max = 8))]
    pub max_ngram_size: Option<u32>,
    /// A draft model's less likely tokens are not drafted.
    #[schemars(range(min = 0, max = 1), extend("x-beyond" = true))]
    pub assistant_confidence_threshold: Option<f32>,
}

/// Token counts of a stream.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("additionalProperties" = false))]
pub struct StreamOptions {
    /// Ends the stream with token counts.
    pub include_usage: Option<bool>,
    /// Has them in every event.
    pub continuous_usage_stats: Option<bool>,
    /// Without effect: nothing is obscured.
    pub include_obfuscation: Option<bool>,
}

/// The others of that kind.
pub const PLAIN: &[Plain] = &plain! {
    /// Without effect: nothing is ever stored.
    "store": Idle("boolean"),
    /// Without effect: there is one tier; `priority` says who goes first.
    "service_tier": Idle("string"),
    /// Without effect.
    "user": Idle("string"),
    /// Without effect.
    "safety_identifier": Idle("string"),
    /// Without effect: prompts that begin alike are found without it.
    "prompt_cache_key": Idle("string"),
    /// Without effect: `prefix_cache_size` of the graph says how much is kept.
    "prompt_cache_retention": Idle("string"),
    /// Without effect.
    "metadata": Idle("object"),
    /// Without effect: the header `x-request-id` names a request.
    "request_id": Idle("string"),
    /// Without effect: what was computed is the same wherever it came from.
    "cache_prompt": Idle("boolean"),
    /// Nothing is transferred.
    "kv_transfer_params": Only(&["{}"]),
};
