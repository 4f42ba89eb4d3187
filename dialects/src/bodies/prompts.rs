//! Fields of requests about prompts.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::{ReadApart, Text, shapes};
use crate::{
    limits::{MAX_PROMPTS, MAX_TOKENS},
    schema::Plain,
};

/// Fields of `tokenize`, which returns tokens of texts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Tokenize {
    /// Name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: String,
    /// Text to tokenize. A conversation in `messages`, with other fields of chats, can replace it.
    #[schemars(schema_with = "shapes::text_or_texts::<MAX_PROMPTS>")]
    pub text: Option<Text<String>>,
    /// Alternative name of `text`, as in vLLM.
    #[schemars(schema_with = "shapes::text_or_texts::<MAX_PROMPTS>", extend("x-beyond" = true))]
    pub prompt: Option<Text<String>>,
    /// Alternative name of `text`, as in llama-server.
    #[schemars(schema_with = "shapes::text_or_texts::<MAX_PROMPTS>", extend("x-beyond" = true))]
    pub content: Option<Text<String>>,
    /// Adds the model's begin token; the default is false with `content` and true otherwise.
    pub add_special_tokens: Option<bool>,
    /// Reads the spelling of a special token as the token; the default is false with `text` and true otherwise.
    pub parse_special: Option<bool>,
    /// Maximum number of tokens; longer lists are cut.
    #[schemars(range(min = 1))]
    pub max_length: Option<u32>,
    /// Fills shorter lists up to `max_length`.
    pub pad_to_max_length: bool,
    /// Side of a list that is filled.
    #[schemars(extend("enum" = ["left", "right"]))]
    pub padding_side: Option<String>,
    /// Adds the text of each token.
    pub return_token_strs: bool,
    /// Lists tokens as objects with `id` and `piece`.
    pub with_pieces: bool,
}

/// Fields of `tokenize` that need no reading.
pub const PLAIN: &[Plain] = &plain! {
    /// Alternative name of `add_special_tokens` in llama-server.
    "add_special": Alias("add_special_tokens"),
};

/// Fields of `detokenize`, which returns the text of tokens.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Detokenize {
    /// Name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: String,
    /// Tokens whose text is returned.
    #[schemars(schema_with = "tokens")]
    pub tokens: ReadApart,
}

fn tokens(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-own": true,
        "x-words": format!("an array of at most {MAX_TOKENS} token ids"),
        "type": "array", "items": shapes::token(),
    })
}
