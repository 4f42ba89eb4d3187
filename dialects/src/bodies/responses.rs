//! Fields of OpenAI's responses. Those of chat that are not among them (`min_p`, `seed`, `stop` ...)
//! can be used as well.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;

use super::shapes;
use crate::{
    limits::MAX_MESSAGES,
    schema::Plain::{self, Only},
};

/// Fields of responses.
#[derive(Debug, JsonSchema)]
pub struct Responses {
    /// The conversation. An item is a message of text, images and sounds, a `function_call`, a `function_call_output` or `reasoning`.
    #[schemars(schema_with = "input")]
    pub input: (),
    /// The system message before the input.
    pub instructions: String,
    /// Maximum number of tokens of the answer.
    #[schemars(schema_with = "shapes::limit::<1>")]
    pub max_output_tokens: (),
    /// Its `format` says what the answer has to be.
    #[schemars(schema_with = "text")]
    pub text: (),
    /// Its `effort` is the template's `reasoning_effort`.
    #[schemars(schema_with = "reasoning")]
    pub reasoning: (),
    /// The functions that the model may call.
    #[schemars(schema_with = "shapes::flat_tools")]
    pub tools: (),
    /// Choice of a call.
    #[schemars(schema_with = "choice")]
    pub tool_choice: (),
    /// Allows several calls in one answer.
    pub parallel_tool_calls: bool,
    /// Sends the answer as named events, while it is generated.
    pub stream: bool,
    /// As in chat.
    #[schemars(range(min = 0, max = 2))]
    pub temperature: f32,
    /// As in chat.
    #[schemars(range(min = 0, max = 1))]
    pub top_p: f32,
    /// Answers are never stored.
    pub store: bool,
    /// `reasoning.encrypted_content` changes nothing: what is thought is sent as it is.
    #[schemars(schema_with = "include")]
    pub include: (),
}

/// The others of that kind.
pub const PLAIN: &[Plain] = &[
    Only("n", &["1"], "There is one answer."),
    Only("previous_response_id", &[], "Nothing is stored."),
    Only("conversation", &[], "Nothing is stored."),
    Only("background", &["false"], "Nothing is stored."),
    Only("prompt", &[], "There are no stored prompts."),
    Only("max_tool_calls", &[], "There are no tools of the server."),
    Only(
        "truncation",
        &["\"disabled\""],
        "What does not fit is refused.",
    ),
    Only("top_logprobs", &["0"], "Chat has log probabilities."),
];

fn input(_: &mut SchemaGenerator) -> Schema {
    let text = json!({ "type": "string" });
    let role = json!({ "type": "string", "enum": ["user", "assistant", "system", "developer"] });
    let message = json!({
        "type": "object", "required": ["role", "content"], "properties": { "role": role, "content": text },
    });
    json_schema!({
        "x-own": true,
        "x-words": format!("a string or an array of 1 to {MAX_MESSAGES} items"),
        "anyOf": [text, { "type": "array", "items": message, "minItems": 1 }],
    })
}

fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-beyond": true, "properties": { "format": { "type": "object" } } })
}

fn reasoning(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-beyond": true, "properties": { "effort": { "type": "string" } } })
}

fn choice(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-own": true, "x-words": "`none`, `auto`, `required` or a function",
        "type": "string", "enum": ["none", "auto"],
    })
}

fn include(_: &mut SchemaGenerator) -> Schema {
    let known = "reasoning.encrypted_content";
    json_schema!({
        "type": "array", "maxItems": 64, "items": { "enum": [known], "x-only": true },
        "x-shown": { "type": "array", "maxItems": 64, "items": { "const": known } },
    })
}
