//! Fields of chat requests.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};
use serde_json::{Map, Value, json};

use super::shapes;
use crate::{
    limits::{MAX_DOCUMENTS, MAX_MESSAGES, MAX_TEMPLATE_CHARS},
    schema::Plain,
};

/// Fields that only chats have.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Chat {
    /// Conversation. A message has a `role` (`system`, `developer`, `user`, `assistant`, `tool` or `function`) and a `content`: a string, or an array of parts
    /// of type `text` and, for models that read images or sound, `image_url` and `input_audio`. `name`, `tool_calls` and `tool_call_id` reach the template. In
    /// requests with a `session_id`, a string is one user message, as LMDeploy's client sends it.
    #[schemars(schema_with = "conversation")]
    pub messages: Option<Conversation>,
    /// Ends the prompt with the start of an answer; the default is true.
    pub add_generation_prompt: Option<bool>,
    /// Continues the last message, which the template leaves open, instead of starting an answer.
    #[schemars(extend("x-beyond" = true))]
    pub continue_final_message: bool,
    /// Additional variables for the chat template, such as `enable_thinking`.
    #[schemars(schema_with = "variables")]
    pub chat_template_kwargs: Map<String, Value>,
    /// Chat template that replaces the model's. Requires `--trust_request_chat_template`.
    #[schemars(length(min = 1, max = MAX_TEMPLATE_CHARS), extend("x-beyond" = true))]
    pub chat_template: Option<String>,
    /// Variable `documents` of the template: strings or objects.
    #[schemars(length(max = MAX_DOCUMENTS), extend("items" = json!({ "anyOf": [{ "type": "string" }, { "type": "object" }] })))]
    pub documents: Option<Vec<Value>>,
    /// Maximum number of tokens of a choice. At most the graph's `max_tokens_limit`.
    #[schemars(schema_with = "shapes::limit::<1>")]
    pub max_tokens: Option<i64>,
    /// Returns the log probability of each token under the model itself, before penalties, temperature and other sampling.
    pub logprobs: bool,
    /// Number of most likely tokens at each position whose log probabilities are returned. Requires `logprobs`.
    #[schemars(range(min = 0, max = 20))]
    pub top_logprobs: Option<u8>,
}

/// A conversation, as messages or as text.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub enum Conversation {
    /// Text of one user message.
    Said(String),
    /// Messages of several authors, in order.
    Messages(Vec<Map<String, Value>>),
}

/// Reads messages without copying them first, because they can be nearly the whole body.
impl<'de> Deserialize<'de> for Conversation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Conversation;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Conversation, E> {
                Ok(Conversation::Said(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Conversation, E> {
                Ok(Conversation::Said(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, messages: A) -> Result<Conversation, A::Error> {
                let messages = de::value::SeqAccessDeserializer::new(messages);
                Vec::deserialize(messages).map(Conversation::Messages)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl From<Conversation> for Vec<Map<String, Value>> {
    fn from(conversation: Conversation) -> Self {
        match conversation {
            Conversation::Messages(messages) => messages,
            Conversation::Said(text) => {
                let fields = [("role", "user".into()), ("content", text.into())];
                let fields = fields.map(|(name, value)| (name.to_owned(), value));
                vec![Map::from_iter(fields)]
            }
        }
    }
}

/// Chat fields that need no reading.
pub const PLAIN: &[Plain] = &plain! {
    /// The chat template writes special tokens.
    "add_special_tokens": Only(&["false"]),
    /// Has no effect: verbosity cannot be controlled.
    "verbosity": Only(&[r#""low""#, r#""medium""#, r#""high""#]),
    /// Only text is generated, whatever the input.
    "modalities": Only(&[r#"["text"]"#]),
    /// Only text is generated, no sound.
    "audio": Only(&[]),
    /// Use `num_assistant_tokens`, which drafts tokens from the prompt.
    "prediction": Only(&[]),
    /// There is no web search.
    "web_search_options": Only(&[]),
    /// Each model has its own processing of images and sound.
    "mm_processor_kwargs": Only(&["{}"]),
};

fn variables(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": { "add_generation_prompt": { "type": "boolean" } },
        "x-shown": { "type": "object" },
    })
}

/// Makes the schema of a chat's messages, or of a text for one user message.
fn conversation(_: &mut SchemaGenerator) -> Schema {
    let messages = messages();
    json_schema!({
        "x-kind": "an array",
        "x-words": format!("an array of 1 to {MAX_MESSAGES} messages"),
        "x-shown": messages["x-shown"],
        "anyOf": [{ "type": "string", "minLength": 1 }, messages],
    })
}

/// Makes the schema of messages. Templates may know more than is checked here.
pub(super) fn messages() -> Value {
    let text = json!({ "type": "string" });
    let named = json!({ "type": "object", "required": ["name"], "properties": { "name": text } });
    let call = json!({ "type": "object", "required": ["function"], "properties": { "function": {
        "type": "object", "required": ["name"],
        "properties": { "name": text, "arguments": { "type": ["string", "object"], "x-kind": "a string" } },
    } } });
    let message = json!({
        "type": "object", "required": ["role"],
        "properties": {
            "role": { "type": "string", "minLength": 1 },
            "function_call": named,
            "name": text,
            "tool_call_id": text,
            "content": {
                "x-kind": "a string or an array of parts",
                "anyOf": [text, { "type": "array", "items": part() }],
            },
            "reasoning_content": text,
            "reasoning": text,
            "tool_calls": { "type": "array", "items": call },
        },
    });
    // The template decides which roles need a content, and may know further roles.
    let roles = [
        "system",
        "developer",
        "user",
        "assistant",
        "tool",
        "function",
    ];
    let shown = json!({
        "type": "object", "required": ["role"],
        "properties": { "role": { "type": "string", "enum": roles }, "content": { "type": "string", "x-parts": "ChatPart" } },
    });
    json!({
        "x-entries": "messages",
        "type": "array", "minItems": 1, "maxItems": MAX_MESSAGES, "items": message,
        "x-shown": { "type": "array", "items": shown, "minItems": 1 },
    })
}

/// Makes the schema of a message part.
fn part() -> Value {
    let form = |tags: &[&str], name: &str, schema: Value| {
        let properties = Map::from_iter([
            ("type".to_owned(), json!({ "type": "string", "enum": tags })),
            (name.to_owned(), schema),
        ]);
        json!({ "type": "object", "required": ["type", name], "properties": properties })
    };
    let text = json!({ "type": "string" });
    let detail = json!({ "type": "string", "enum": ["auto", "low", "high", "original"] });
    let format = json!({ "type": "string", "enum": ["wav", "mp3", "flac"] });
    let image = json!({ "type": "object", "required": ["url"], "properties": { "detail": detail, "url": text } });
    let sound = json!({ "type": "object", "required": ["data"], "properties": { "format": format, "data": text } });
    json!({
        "x-unsupported": "messages are text, images and sounds",
        "oneOf": [
            form(&["text", "input_text"], "text", text.clone()),
            form(&["refusal"], "refusal", text),
            form(&["image_url"], "image_url", image),
            form(&["input_audio"], "input_audio", sound),
        ],
    })
}
