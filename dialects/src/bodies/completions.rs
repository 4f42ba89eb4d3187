//! Fields of completion requests.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{ReadApart, shapes};
use crate::schema::Plain;

/// Names of the field of vectors.
pub const VECTORS: [&str; 3] = ["prompt_embeds", "inputs_embeds", "input_embeds"];

/// Fields that only completions have.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Completions {
    /// Texts to continue. Several prompts are answered at once, with `n` choices each.
    #[schemars(schema_with = "shapes::prompts")]
    pub prompt: ReadApart,
    /// Vectors in place of a prompt, one for each token, like the output of the model's embedding layer. Only for graphs whose LLM node has `prompt_embeds: true`, and not with `echo`, `suffix` or `prompt_logprobs`.
    #[schemars(schema_with = "shapes::vectors")]
    pub prompt_embeds: ReadApart,
    /// Repeats the prompt before the text, with log probabilities if they are requested. With it, `max_tokens` may be 0.
    pub echo: bool,
    /// Text after the answer, for models with fill-in-the-middle. Other models refuse it.
    #[schemars(extend("x-beyond" = true))]
    pub suffix: String,
    /// Maximum number of tokens of a choice; 0 only with `echo`. At most the graph's `max_tokens_limit`.
    #[schemars(schema_with = "shapes::limit::<0>")]
    pub max_tokens: Option<i64>,
    /// Returns the log probability of each token under the model itself, and those of this many most likely tokens at each position.
    #[schemars(range(min = 0, max = 20))]
    pub logprobs: Option<u8>,
}

/// Alternative names of the field of vectors.
pub(super) const PLAIN: &[Plain] = &plain! {
    /// The same as `prompt_embeds`.
    "inputs_embeds": Alias("prompt_embeds"),
    /// The same as `prompt_embeds`.
    "input_embeds": Alias("prompt_embeds"),
};

/// Fields of vectors at endpoints that take none.
pub(super) const NO_VECTORS: &[Plain] = &plain! {
    /// Use `completions`.
    "prompt_embeds": Only(&[]),
    /// Use `completions`.
    "inputs_embeds": Only(&[]),
    /// Use `completions`.
    "input_embeds": Only(&[]),
};
