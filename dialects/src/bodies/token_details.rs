//! Fields that request details of tokens, in the prompt and in the answer.

use schemars::JsonSchema;
use serde::Deserialize;

/// Token details in an answer.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TokenDetails {
    /// Returns the ids of tokens: `prompt_token_ids`, and `token_ids` of each choice, including the token that ended it. Each event of a stream has the new
    /// ones.
    pub return_token_ids: bool,
    /// Writes the tokens of log probabilities as `token_id:` and the id.
    pub return_tokens_as_token_ids: bool,
    /// Returns the log probability and the rank of each token of the prompt, and those of this many most likely tokens at its position. Not in streams.
    #[schemars(range(min = 0, max = 20), extend("x-beyond" = true))]
    pub prompt_logprobs: Option<u8>,
}
