//! Fields that decide the number of texts and where they end.

use graphmill_llm::Token;
use indexmap::IndexSet;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Text, shapes};
use crate::limits::MAX_STOP_TOKENS;

/// Number and end of texts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Length {
    /// Number of choices for each prompt; the prompt is computed once. Must be less than the graph's `best_of_limit` (20 by default).
    #[schemars(range(min = 1, max = 128))]
    pub n: Option<u32>,
    /// Must equal `n`: choices are not ranked.
    #[schemars(range(min = 1, max = 128), extend("x-beyond" = true))]
    pub best_of: Option<u32>,
    /// Maximum number of tokens of a choice. Overrides `max_tokens`.
    #[schemars(schema_with = "shapes::limit::<1>")]
    pub max_completion_tokens: Option<i64>,
    /// Minimum number of tokens before the model's end token or one of `stop_token_ids` is allowed.
    pub min_tokens: u32,
    /// Texts that end a choice where they appear. They are not part of the choice.
    #[schemars(schema_with = "shapes::stop")]
    pub stop: Option<Text<String>>,
    /// Keeps the text of `stop` that ended a choice as part of the choice.
    pub include_stop_str_in_output: bool,
    /// Tokens that end a choice. They are not part of the choice.
    #[schemars(length(max = MAX_STOP_TOKENS), extend("items" = shapes::token()))]
    pub stop_token_ids: Vec<Token>,
    /// Continues after the model's end token.
    pub ignore_eos: bool,
    /// Cuts a prompt to this many tokens; -1 leaves room for the answer. Without it, a prompt that is too long is refused.
    #[schemars(schema_with = "shapes::truncation", extend("x-beyond" = true))]
    pub truncate_prompt_tokens: Option<i64>,
    /// Side of a long prompt that is cut; the default is `left`, which keeps the last tokens.
    #[schemars(extend("enum" = ["left", "right"], "x-beyond" = true))]
    pub truncation_side: Option<String>,
}

impl From<Text<String>> for Vec<String> {
    /// Makes a list without duplicates.
    fn from(texts: Text<String>) -> Self {
        let each: IndexSet<String> = texts.into_parts().into_iter().collect();
        each.into_iter().collect()
    }
}
