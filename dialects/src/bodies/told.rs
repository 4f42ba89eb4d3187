//! Fields that ask for more about tokens, of the prompt and of the answer.

use schemars::JsonSchema;
use serde::Deserialize;

/// Tokens of which an answer tells.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Told {
    /// Tells the ids of tokens: `prompt_token_ids`, and `token_ids` of each choice, with the token
    /// that ended it. An event of a stream has those that are new.
    pub return_token_ids: bool,
    /// Writes the tokens of log probabilities as `token_id:` and the id.
    pub return_tokens_as_token_ids: bool,
    /// Tells the log probability and the rank of each token of the prompt, and of that many likeliest ones at its place. Not in streams.
    #[schemars(range(min = 0, max = 20), extend("x-beyond" = true))]
    pub prompt_logprobs: Option<u8>,
}
