//! Schemas that several endpoints have.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::{
    limits::{
        MAX_BAD_WORD_CHARS, MAX_BAD_WORDS, MAX_PROMPTS, MAX_STOP_CHARS, MAX_STOPS, MAX_TEXTS,
        MAX_TOKENS,
    },
    schema::NOT_BLANK,
};

/// A number of tokens from `LEAST` on, or -1.
pub(crate) fn limit<const LEAST: i64>(_: &mut SchemaGenerator) -> Schema {
    let mut shown = json!({ "type": "integer", "minimum": -1, "maximum": u32::MAX });
    if LEAST > 0 {
        shown["not"] = json!({ "const": 0 });
    }
    json_schema!({
        "x-shown": shown,
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

/// Words that an answer does not have.
pub(crate) fn bad_words(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-words": format!("an array of at most {MAX_BAD_WORDS} strings, each of at most {MAX_BAD_WORD_CHARS} characters"),
        "type": "array", "items": short_text(MAX_BAD_WORD_CHARS), "maxItems": MAX_BAD_WORDS, "x-entries": "words",
    })
}

/// A number of tokens that a prompt is cut to.
pub(crate) fn truncation(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-words": "an integer of at least 1, or -1, which is the model's context",
        "anyOf": [{ "type": "integer", "minimum": 1, "maximum": u32::MAX }, { "type": "integer", "const": -1 }],
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
        "x-shown": { "anyOf": [{ "type": "object" }, { "const": true }] },
    })
}

/// The schema of a function's arguments, which are an object.
pub(crate) fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": { "type": { "anyOf": [
            { "type": "string", "enum": ["object"] },
            { "type": "array", "items": {} }, { "type": "boolean" }, { "type": "number" }, { "type": "object" },
        ] } },
    })
}

/// The prompts of a completion.
pub(crate) fn prompts(_: &mut SchemaGenerator) -> Schema {
    texts_or_tokens(1, MAX_PROMPTS, "prompts")
}

/// The vectors of a completion.
pub(crate) fn vectors(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-own": true, "x-beyond": true,
        "x-words": "an array of rows of numbers, or Base64 of a NumPy file or of a tensor that `torch.save` has written",
        "anyOf": [{ "type": "array" }, { "type": "string" }],
    })
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
    let list =
        |each: &Value| json!({ "type": "array", "items": each, "minItems": 1, "maxItems": most });
    let each = json!({ "anyOf": [text, tokens] });
    json_schema!({
        "x-own": true,
        "x-words": format!("a string, an array of strings, an array of token ids, or an array of such arrays; at most {most} {what}, and {MAX_TOKENS} token ids together"),
        "anyOf": [text, tokens, list(&each)],
        // Lists of both kinds are taken, too, which no generated client can write.
        "x-shown": { "oneOf": [text, tokens, list(&text), list(&tokens)] },
    })
}

/// A tool whose function is not in an object of its own; its arguments have a schema of this name.
pub(crate) fn tool(kind: &str, parameters: &str, required: &[&str]) -> Value {
    json!({
        "type": "object", "required": required,
        "properties": {
            "type": { "type": "string", "enum": [kind], "x-only": true },
            "name": { "type": "string", "minLength": 1 },
            "description": { "type": "string" },
            (parameters): self::parameters(),
            "strict": { "type": "boolean" },
        },
    })
}

/// Messages that every model takes, of text or of parts that are described elsewhere.
pub(crate) fn messages(roles: &[&str], part: &str) -> Value {
    let role = json!({ "type": "string", "enum": roles });
    json!({ "type": "array", "minItems": 1, "items": {
        "type": "object", "required": ["role", "content"],
        "properties": { "role": role, "content": { "type": "string", "x-parts": part } },
    } })
}
