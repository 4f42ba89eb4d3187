//! Fields of Anthropic's messages. Those of chat that are not among them (`min_p`, `seed` ...) can be
//! used as well.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;

use super::shapes;
use crate::{
    limits::{MAX_MESSAGES, MAX_STOP_CHARS, MAX_STOPS, MAX_TOOLS},
    schema::Plain::{self, Only},
};

/// Fields of messages.
#[derive(Debug, JsonSchema)]
pub struct Messages {
    /// The conversation. Content is a string or an array of blocks: `text`, `image`, `thinking`, `tool_use`, `tool_result`. A last message of the assistant is continued.
    #[schemars(schema_with = "messages")]
    pub messages: (),
    /// The system message before the conversation.
    #[schemars(schema_with = "system")]
    pub system: (),
    /// Maximum number of tokens of the answer; can be left out.
    #[schemars(schema_with = "shapes::limit::<1>")]
    pub max_tokens: (),
    /// End the text where they appear; the answer says which. Each has at most 1024 characters.
    #[schemars(length(max = MAX_STOPS), inner(length(min = 1, max = MAX_STOP_CHARS)))]
    pub stop_sequences: Vec<String>,
    /// Sends the answer as named events, while it is generated.
    pub stream: bool,
    /// As in chat.
    #[schemars(range(min = 0, max = 2))]
    pub temperature: f32,
    /// As in chat.
    #[schemars(range(min = 0, max = 1))]
    pub top_p: f32,
    /// As in chat.
    #[schemars(range(min = -1, max = i32::MAX))]
    pub top_k: i32,
    /// The client's tools that the model may call.
    #[schemars(schema_with = "tools")]
    pub tools: (),
    /// Choice of a call: `auto`, `any`, `tool` or `none`.
    #[schemars(schema_with = "choice")]
    pub tool_choice: (),
    /// Sets the template's `enable_thinking`, and limits what is thought.
    #[schemars(extend("x-words" = "an object"))]
    pub thinking: super::tools::Thinking,
    /// Its `format` is a JSON schema that the answer has to match; `effort` is the template's `reasoning_effort`.
    #[schemars(schema_with = "output_config")]
    pub output_config: (),
}

/// The others of that kind.
pub const PLAIN: &[Plain] = &[
    Only("n", &["1"], "There is one answer."),
    Only("logprobs", &["false"], "Chat has log probabilities."),
    Only("mcp_servers", &["[]"], "There are no tools of the server."),
    Only("container", &[], "There are no tools of the server."),
    Only("context_management", &[], "What does not fit is refused."),
];

fn messages(_: &mut SchemaGenerator) -> Schema {
    let role = json!({ "type": "string", "enum": ["user", "assistant"] });
    let message = json!({
        "type": "object", "required": ["role", "content"],
        "properties": { "role": role, "content": { "type": "string" } },
    });
    json_schema!({
        "x-own": true, "x-words": format!("an array of 1 to {MAX_MESSAGES} messages"),
        "type": "array", "items": message, "minItems": 1,
    })
}

fn system(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-own": true, "x-words": "a string or an array of text blocks", "type": "string" })
}

fn tools(_: &mut SchemaGenerator) -> Schema {
    let name = json!({ "type": "string", "minLength": 1 });
    let tool = json!({
        "type": "object", "required": ["name", "input_schema"],
        "properties": { "name": name, "input_schema": shapes::parameters() },
    });
    json_schema!({
        "type": "array", "maxItems": MAX_TOOLS,
        "x-shown": { "type": "array", "items": tool, "maxItems": MAX_TOOLS },
    })
}

fn choice(_: &mut SchemaGenerator) -> Schema {
    let kind = |kinds: &[&str]| {
        json!({
            "type": "object", "required": ["type"],
            "properties": {
                "type": { "type": "string", "enum": kinds },
                "disable_parallel_tool_use": { "type": "boolean" },
            },
        })
    };
    let mut schema = kind(&["auto", "any", "tool", "none"]);
    schema["x-words"] = "an object".into();
    let shown = json!({ "type": { "type": "string", "enum": ["auto", "none"] } });
    schema["x-shown"] = json!({ "type": "object", "required": ["type"], "properties": shown });
    Schema::try_from(schema).unwrap_or_default()
}

fn output_config(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-beyond": true, "properties": { "effort": { "type": "string" } } })
}
