//! Fields of LMDeploy: conversations kept by the server, and tokens of texts.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Text, chat, shapes};
use crate::{limits::MAX_PROMPTS, schema::Plain};

/// Fields of `chat/interactive`, a conversation that the server keeps.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Interactive {
    /// Text of the user, or messages as in chats. They continue the conversation of `session_id`.
    #[schemars(schema_with = "prompt")]
    pub prompt: Option<chat::Conversation>,
    /// Number of the conversation. With -1, the default, nothing is kept.
    pub session_id: Option<i64>,
    /// Keeps the conversation with the answer, for the next request with this `session_id`. Without it, the conversation ends with the answer.
    pub interactive_mode: bool,
    /// Maximum number of tokens of the answer. 0 without `interactive_mode` ends a conversation and generates nothing.
    #[schemars(schema_with = "shapes::limit::<1>")]
    pub request_output_len: Option<i64>,
}

/// Fields of chat that are also listed here.
pub const LISTED: &[&str] = &[
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "repetition_penalty",
    "stop",
    "ignore_eos",
];

/// Fields of `chat/interactive` that need no reading.
pub const INTERACTIVE: &[Plain] = &plain! {
    /// Only one answer is generated.
    "n": Only(&["1"]),
    /// Only one answer is generated.
    "best_of": Only(&["1"]),
    /// Images are parts of messages in `prompt`.
    "image_url": Only(&[]),
    /// Name an adapter in `model`: `graph:adapter`.
    "adapter_name": Only(&[]),
    /// A session ends when its client disconnects.
    "cancel": Only(&["false"]),
};

/// Fields that the server adds: the earlier part of the conversation.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct History {
    /// Earlier messages of the conversation, in order.
    pub history: Vec<Map<String, Value>>,
    /// Number of tokens of the earlier messages.
    pub history_tokens: u32,
}

/// Fields of `encode`, which returns tokens.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Encode {
    /// Name of the graph that answers. Optional if only one graph generates.
    #[schemars(length(min = 1))]
    pub model: String,
    /// Texts to tokenize: a string or an array.
    #[schemars(schema_with = "shapes::text_or_texts::<MAX_PROMPTS>")]
    pub input: Option<Text<String>>,
    /// Tokenizes the prompt of a chat whose only message is the text.
    pub do_preprocess: bool,
    /// Adds the model's begin token; the default is true. In the prompt of a chat, the template decides.
    pub add_bos: Option<bool>,
}

fn prompt(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-words": "a string, or an array of messages", "x-kind": "a string or an array of messages",
        "anyOf": [{ "type": "string", "minLength": 1 }, chat::messages()],
    })
}
