//! Schemas that several endpoints have.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::{
    limits::{MAX_PROMPTS, MAX_STOP_CHARS, MAX_STOPS, MAX_TEXTS, MAX_TOKENS, MAX_TOOLS},
    schema::NOT_BLANK,
};

/// A number of tokens from `LEAST` on, or -1.
pub(crate) fn limit<const LEAST: i64>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-words": format!("an integer of at least {LEAST}, or -1, which is no limit"),
        "anyOf": [{ "type": "integer", "minimum": LEAST, "maximum": u32::MAX }, { "type": "integer", "const": -1 }],
    })
}

/// A text of 1 to so many characters.
pub(crate) fn short_text(most: usize) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": most })
}

/// A token id.
pub(crate) fn token() -> Value {
    json!({ "type": "integer", "format": "token", "minimum": 0, "maximum": i32::MAX, "x-kind": "a token id" })
}

/// Texts that end an answer.
pub(crate) fn stop(_: &mut SchemaGenerator) -> Schema {
    let text = short_text(MAX_STOP_CHARS);
    json_schema!({
        "x-words": format!("a string, or an array of at most {MAX_STOPS} strings; each of at most {MAX_STOP_CHARS} characters"),
        "x-kind": "a string or an array of strings",
        "anyOf": [text, { "type": "array", "items": text, "maxItems": MAX_STOPS, "x-entries": "strings" }],
    })
}

/// A text that is not blank.
pub(crate) fn some_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": NOT_BLANK })
}

/// A JSON schema, or a string of one.
pub(crate) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["object", "boolean", "string"],
        "x-words": "a JSON schema, or a string of one", "x-kind": "a JSON schema",
    })
}

/// The schema of a function's arguments, which are an object.
pub(crate) fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": { "type": { "anyOf": [
            { "type": "string", "enum": ["object"] },
            { "type": ["array", "boolean", "number", "object"] },
        ] } },
    })
}

/// The prompts of a completion.
pub(crate) fn prompts(_: &mut SchemaGenerator) -> Schema {
    texts_or_tokens(1, MAX_PROMPTS, "prompts")
}

/// The texts of a request for vectors.
pub(crate) fn texts(_: &mut SchemaGenerator) -> Schema {
    texts_or_tokens(0, MAX_TEXTS, "texts")
}

fn texts_or_tokens(shortest: usize, most: usize, what: &str) -> Schema {
    let text = match shortest {
        0 => json!({ "type": "string" }),
        least => json!({ "type": "string", "minLength": least }),
    };
    let tokens = json!({ "type": "array", "items": token(), "minItems": 1 });
    let each = json!({ "anyOf": [text, tokens] });
    json_schema!({
        "x-own": true,
        "x-words": format!("a string, an array of strings, an array of token ids, or an array of such arrays; at most {most} {what}, and {MAX_TOKENS} token ids together"),
        "anyOf": [text, tokens, { "type": "array", "items": each, "minItems": 1, "maxItems": most }],
    })
}

/// Tools in the form of OpenAI's responses: functions beside their type. Their reader checks them.
pub(crate) fn flat_tools(_: &mut SchemaGenerator) -> Schema {
    let name = json!({ "type": "string", "minLength": 1 });
    let tool = json!({
        "type": "object", "required": ["type", "name"],
        "properties": { "type": { "type": "string", "enum": ["function"] }, "name": name, "parameters": nullable(&parameters()) },
    });
    json_schema!({ "type": "array", "maxItems": MAX_TOOLS, "x-shown": { "type": "array", "items": tool, "maxItems": MAX_TOOLS } })
}

/// A schema that null fits, too.
pub(crate) fn nullable(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}
