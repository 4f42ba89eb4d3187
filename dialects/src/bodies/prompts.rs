//! Fields of questions about prompts.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::json;

use super::{ReadApart, Text, shapes};
use crate::{
    limits::{MAX_PROMPTS, MAX_TOKENS},
    schema::Plain,
};

/// Fields of `tokenize`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Tokenize {
    /// The name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: String,
    /// Text to tokenize; a conversation in `messages`, and other fields of chats, can be there instead.
    #[schemars(schema_with = "texts")]
    pub text: Option<Text<String>>,
    /// Another name for `text`.
    #[schemars(schema_with = "texts", extend("x-beyond" = true))]
    pub prompt: Option<Text<String>>,
    /// Another name for `text`.
    #[schemars(schema_with = "texts", extend("x-beyond" = true))]
    pub content: Option<Text<String>>,
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
pub const PLAIN: &[Plain] = &plain! {
    /// The same, as llama-server has it.
    "add_special": Alias("add_special_tokens"),
};

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

fn texts(_: &mut SchemaGenerator) -> Schema {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": text, "minItems": 1, "maxItems": MAX_PROMPTS, "x-entries": "texts" });
    json_schema!({ "x-kind": "a string or an array of strings", "anyOf": [text, texts] })
}

fn tokens(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-own": true,
        "x-words": format!("an array of at most {MAX_TOKENS} token ids"),
        "type": "array", "items": shapes::token(),
    })
}
