//! Fields about the execution of a request and its sender.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::schema::Plain;

/// Settings of a request's execution.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Run {
    /// Name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: String,
    /// Sends the answer as a stream of events.
    pub stream: bool,
    /// Settings of a stream; they require `stream`. `include_usage` ends the stream with token counts, `continuous_usage_stats` adds them to every event.
    /// `include_obfuscation` has no effect.
    #[schemars(extend("x-needs" = "stream"))]
    pub stream_options: Option<StreamOptions>,
    /// Seconds after which the request fails with status 504, or with an event if the stream has begun. The header `x-request-timeout-ms` sets the same in
    /// milliseconds; the shorter time wins.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub timeout: Option<f64>,
    /// Order of requests when not all can run: the highest first. From -10 to 10, unless the graph sets another range.
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    pub priority: i32,
    /// Shares computed prefixes only with requests that have the same salt.
    #[schemars(length(min = 1))]
    pub cache_salt: String,
    /// Maximum number of tokens drafted in a step; 0 drafts none.
    #[schemars(range(min = 0, max = 32))]
    pub num_assistant_tokens: Option<u32>,
    /// Maximum number of consecutive tokens that prompt lookup searches for.
    #[schemars(range(min = 1, max = 8))]
    pub max_ngram_size: Option<u32>,
    /// Minimum probability of a token drafted by a draft model.
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
    /// Adds token counts to every event.
    pub continuous_usage_stats: Option<bool>,
    /// Has no effect: nothing is obfuscated.
    pub include_obfuscation: Option<bool>,
}

/// Execution fields that need no reading.
pub const PLAIN: &[Plain] = &plain! {
    /// Has no effect: nothing is ever stored.
    "store": Idle("boolean"),
    /// Has no effect: there is one tier; `priority` decides the order.
    "service_tier": Idle("string"),
    /// Has no effect; accepted for compatibility.
    "user": Idle("string"),
    /// Has no effect; accepted for compatibility.
    "safety_identifier": Idle("string"),
    /// Has no effect: common prefixes of prompts are found without it.
    "prompt_cache_key": Idle("string"),
    /// Has no effect: `prefix_cache_size` of the graph limits the cache.
    "prompt_cache_retention": Idle("string"),
    /// Has no effect; accepted for compatibility.
    "metadata": Idle("object"),
    /// Has no effect: the header `x-request-id` names a request.
    "request_id": Idle("string"),
    /// Has no effect: a reused prefix gives the same results as a computed one.
    "cache_prompt": Idle("boolean"),
    /// Caches cannot be transferred between servers.
    "kv_transfer_params": Only(&["{}"]),
};
