//! Fields that say how many texts there are and where they end.

use graphmill_llm::Token;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Text, shapes};
use crate::limits::MAX_STOP_TOKENS;

/// Number and end of texts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Length {
    /// Choices for each prompt, which is computed once. Below the graph's `best_of_limit`.
    #[schemars(range(min = 1, max = 128))]
    pub n: Option<u32>,
    /// Equal to `n`: choices are not ranked.
    #[schemars(range(min = 1, max = 128), extend("x-beyond" = true))]
    pub best_of: Option<u32>,
    /// Maximum number of tokens of a choice. Goes before `max_tokens`.
    #[schemars(schema_with = "shapes::limit::<1>")]
    pub max_completion_tokens: Option<i64>,
    /// Tokens before the model's end token or one of `stop_token_ids` can come.
    pub min_tokens: u32,
    /// Texts that end a choice where they appear. They are not part of it.
    #[schemars(schema_with = "shapes::stop")]
    pub stop: Option<Text<String>>,
    /// Makes the text of `stop` that ended a choice part of it.
    pub include_stop_str_in_output: bool,
    /// Tokens that end a choice. They are not part of it.
    #[schemars(length(max = MAX_STOP_TOKENS), extend("items" = shapes::token()))]
    pub stop_token_ids: Vec<Token>,
    /// Goes on after the model's end token.
    pub ignore_eos: bool,
    /// Cuts a prompt to that many tokens; with -1 to as many as leave room for the answer. Without it, a prompt that is too long is refused.
    #[schemars(schema_with = "shapes::truncation", extend("x-beyond" = true))]
    pub truncate_prompt_tokens: Option<i64>,
    /// Side on which it is cut; `left`, which keeps the last tokens, when left out.
    #[schemars(extend("enum" = ["left", "right"], "x-beyond" = true))]
    pub truncation_side: Option<String>,
}

impl From<Text<String>> for Vec<String> {
    /// Each text once.
    fn from(texts: Text<String>) -> Self {
        let all = match texts {
            Text::Whole(text) => vec![text],
            Text::Parts(texts) => texts,
        };
        let mut each: Self = Self::with_capacity(all.len());
        for text in all {
            if !each.contains(&text) {
                each.push(text);
            }
        }
        each
    }
}
