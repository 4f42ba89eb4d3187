//! Fields of questions about prompts.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::json;

use super::{ReadApart, shapes};
use crate::{
    limits::{MAX_PROMPTS, MAX_TOKENS},
    schema::Plain::{self, Alias},
};

/// Fields of `tokenize`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Tokenize {
    /// The name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: String,
    /// Text to tokenize. `prompt` and `content` are other names for it, and `messages` can be there
    /// instead.
    #[schemars(schema_with = "text")]
    pub text: ReadApart,
    /// Adds the model's begin token: true, but with `content` false.
    pub add_special_tokens: Option<bool>,
    /// Reads the spelling of a special token as the token: true with `content` and `prompt`, false with `text`.
    pub parse_special: Option<bool>,
    /// Longer lists are cut.
    #[schemars(range(min = 1))]
    pub max_length: Option<u32>,
    /// Fills shorter lists.
    pub pad_to_max_length: bool,
    /// Side on which they are filled.
    #[schemars(extend("enum" = ["left", "right"]))]
    pub padding_side: Option<String>,
    /// Lists the text of each token, too.
    pub return_token_strs: bool,
    /// Lists tokens as objects of `id` and `piece`.
    pub with_pieces: bool,
}

/// The others of `tokenize`.
pub const PLAIN: &[Plain] = &[Alias(
    "add_special",
    "add_special_tokens",
    "The same, as llama-server has it.",
)];

/// Fields of `detokenize`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Detokenize {
    /// The name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: String,
    /// The tokens of the text.
    #[schemars(schema_with = "tokens")]
    pub tokens: ReadApart,
}

fn text(_: &mut SchemaGenerator) -> Schema {
    let text = json!({ "type": "string" });
    json_schema!({
        "x-own": true,
        "x-words": format!("a string or an array of at most {MAX_PROMPTS} strings"),
        "anyOf": [text, { "type": "array", "items": text, "minItems": 1 }],
    })
}

fn tokens(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-own": true,
        "x-words": format!("an array of at most {MAX_TOKENS} token ids"),
        "type": "array", "items": shapes::token(),
    })
}
