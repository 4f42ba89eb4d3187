//! Fields of completion requests.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{ReadApart, shapes};

/// Fields that only completions have.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Completions {
    /// Texts to continue. Several prompts are answered at once, with `n` choices each.
    #[schemars(schema_with = "shapes::prompts")]
    pub prompt: ReadApart,
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
