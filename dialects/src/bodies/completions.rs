//! Fields of completions.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{ReadApart, shapes};

/// Fields that only completions have.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Completions {
    /// Beginnings that the text goes on from. Several prompts are answered at once, `n` choices
    /// each.
    #[schemars(schema_with = "shapes::prompts")]
    pub prompt: ReadApart,
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
