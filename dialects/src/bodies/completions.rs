//! Fields of completions.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{ReadApart, shapes};
use crate::schema::Plain;

/// The names of the field of vectors.
pub const VECTORS: [&str; 3] = ["prompt_embeds", "inputs_embeds", "input_embeds"];

/// Fields that only completions have.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Completions {
    /// Beginnings that the text goes on from. Several prompts are answered at once, `n` choices
    /// each.
    #[schemars(schema_with = "shapes::prompts")]
    pub prompt: ReadApart,
    /// Vectors in the place of a prompt, one for each token, as the model has them behind its embedding layer. For graphs whose LLM node has `prompt_embeds: true`; not with `echo`, `suffix` or `prompt_logprobs`.
    #[schemars(schema_with = "shapes::vectors")]
    pub prompt_embeds: ReadApart,
    /// Repeats the prompt before the text, with log probabilities where these are asked for. With it, `max_tokens` may be 0.
    pub echo: bool,
    /// Text behind the answer, for models that fill in; others refuse it.
    #[schemars(extend("x-beyond" = true))]
    pub suffix: String,
    /// Maximum number of tokens of a choice; 0 only with `echo`. At most the graph's
    /// `max_tokens_limit`.
    #[schemars(schema_with = "shapes::limit::<0>")]
    pub max_tokens: Option<i64>,
    /// Tells the log probability of each token, under the model itself, with those of that many likeliest tokens at each place.
    #[schemars(range(min = 0, max = 20))]
    pub logprobs: Option<u8>,
}

/// Other names of its fields.
pub(super) const PLAIN: &[Plain] = &plain! {
    /// The same as `prompt_embeds`.
    "inputs_embeds": Alias("prompt_embeds"),
    /// The same as `prompt_embeds`.
    "input_embeds": Alias("prompt_embeds"),
};

/// The same fields where the prompt is a text.
pub(super) const NO_VECTORS: &[Plain] = &plain! {
    /// Use `completions`.
    "prompt_embeds": Only(&[]),
    /// Use `completions`.
    "inputs_embeds": Only(&[]),
    /// Use `completions`.
    "input_embeds": Only(&[]),
};
