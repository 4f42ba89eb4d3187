//! Fields of LMDeploy: conversations that the server keeps, and tokens of texts.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Text, chat, shapes};
use crate::{limits::MAX_PROMPTS, schema::Plain};

/// Fields of `chat/interactive`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Interactive {
    /// Text of the user, or messages as in chats. They go on from the conversation of `session_id`.
    #[schemars(schema_with = "prompt")]
    pub prompt: Option<chat::Conversation>,
    /// Number of the conversation; with -1, as without it, there is none, and nothing is kept.
    pub session_id: Option<i64>,
    /// Keeps the conversation with the answer, for the next request of the same `session_id`. Without it, the conversation ends with the answer.
    pub interactive_mode: bool,
    /// Maximum number of tokens of the answer. 0, without `interactive_mode`, ends a conversation and generates nothing.
    #[schemars(schema_with = "shapes::limit::<1>")]
    pub request_output_len: Option<i64>,
}

/// Fields of chat that are listed here, too.
pub const LISTED: &[&str] = &[
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "repetition_penalty",
    "stop",
    "ignore_eos",
];

/// The others of that kind.
pub const INTERACTIVE: &[Plain] = &plain! {
    /// There is one answer.
    "n": Only(&["1"]),
    /// There is one answer.
    "best_of": Only(&["1"]),
    /// Images are parts of messages in `prompt`.
    "image_url": Only(&[]),
    /// `model` names an adapter: `graph:adapter`.
    "adapter_name": Only(&[]),
    /// A session ends when its client leaves.
    "cancel": Only(&["false"]),
};

/// Fields that the server puts in: what was said before.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct History {
    /// The messages so far.
    pub history: Vec<Map<String, Value>>,
    /// Their tokens.
    pub history_tokens: u32,
}

/// Fields of `encode`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Encode {
    /// The name of the graph that answers; it may be left out where there is one that generates.
    #[schemars(length(min = 1))]
    pub model: String,
    /// The texts.
    #[schemars(schema_with = "input")]
    pub input: Option<Text<String>>,
    /// Makes the prompt of a conversation of the text, which is one.
    pub do_preprocess: bool,
    /// Adds the model's begin token; true when left out. A prompt of a conversation has what the template writes.
    pub add_bos: Option<bool>,
}

fn prompt(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-words": "a string, or an array of messages", "x-kind": "a string or an array of messages",
        "anyOf": [{ "type": "string", "minLength": 1 }, chat::messages()],
    })
}

fn input(_: &mut SchemaGenerator) -> Schema {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": text, "minItems": 1, "maxItems": MAX_PROMPTS, "x-entries": "texts" });
    json_schema!({ "x-kind": "a string or an array of strings", "anyOf": [text, texts] })
}
