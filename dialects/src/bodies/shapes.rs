//! Schemas that several endpoints share.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::{
    limits::{
        MAX_BAD_WORD_CHARS, MAX_BAD_WORDS, MAX_PROMPTS, MAX_STOP_CHARS, MAX_STOPS, MAX_TEXTS,
        MAX_TOKENS,
    },
    schema::NOT_BLANK,
};

/// Makes the schema of a number of tokens: at least `LEAST`, or -1.
pub(crate) fn limit<const LEAST: i64>(_: &mut SchemaGenerator) -> Schema {
    let mut shown = json!({ "type": "integer", "minimum": -1, "maximum": u32::MAX });
    if LEAST > 0 {
        shown["not"] = json!({ "const": 0 });
    }
    json_schema!({
        "x-shown": shown,
        "x-words": format!("an integer of at least {LEAST}, or -1 for no limit"),
        "anyOf": [{ "type": "integer", "minimum": LEAST, "maximum": u32::MAX }, { "type": "integer", "const": -1 }],
    })
}

/// Makes the schema of a text of 1 to `most` characters.
pub(crate) fn short_text(most: usize) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": most })
}

/// Makes the schema of a token id.
pub(crate) fn token() -> Value {
    json!({ "type": "integer", "format": "token", "minimum": 0, "maximum": i32::MAX, "x-kind": "a token id" })
}

/// Makes the schema of texts that end an answer.
pub(crate) fn stop(_: &mut SchemaGenerator) -> Schema {
    let text = short_text(MAX_STOP_CHARS);
    json_schema!({
        "x-words": format!("a string, or an array of at most {MAX_STOPS} strings; each of at most {MAX_STOP_CHARS} characters"),
        "x-kind": "a string or an array of strings",
        "anyOf": [text, { "type": "array", "items": text, "maxItems": MAX_STOPS, "x-entries": "strings" }],
    })
}

/// Makes the schema of words that an answer must not contain.
pub(crate) fn bad_words(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-words": format!("an array of at most {MAX_BAD_WORDS} strings, each of at most {MAX_BAD_WORD_CHARS} characters"),
        "type": "array", "items": short_text(MAX_BAD_WORD_CHARS), "maxItems": MAX_BAD_WORDS, "x-entries": "words",
    })
}

/// Makes the schema of the number of tokens to which a prompt is cut.
pub(crate) fn truncation(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-words": "an integer of at least 1, or -1 for the model's context",
        "anyOf": [{ "type": "integer", "minimum": 1, "maximum": u32::MAX }, { "type": "integer", "const": -1 }],
    })
}

/// Makes the schema of a text that is not blank.
pub(crate) fn some_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": NOT_BLANK })
}

/// Makes the schema of a JSON schema, or of a string with one.
pub(crate) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["object", "boolean", "string"],
        "x-words": "a JSON schema, or a string of one", "x-kind": "a JSON schema",
        "x-shown": { "anyOf": [{ "type": "object" }, { "const": true }] },
    })
}

/// Makes the schema of the JSON schema of a function's arguments, which are an object.
pub(crate) fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": { "type": { "anyOf": [
            { "type": "string", "enum": ["object"] },
            { "type": "array", "items": {} }, { "type": "boolean" }, { "type": "number" }, { "type": "object" },
        ] } },
    })
}

/// Makes the schema of the prompts of a completion.
pub(crate) fn prompts(_: &mut SchemaGenerator) -> Schema {
    texts_or_tokens(1, MAX_PROMPTS, "prompts")
}

/// Makes the schema of the vectors of a completion.
pub(crate) fn vectors(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-own": true, "x-beyond": true,
        "x-words": "an array of rows of numbers, or Base64 of a NumPy file or of a tensor that `torch.save` has written",
        "anyOf": [{ "type": "array" }, { "type": "string" }],
    })
}

/// Makes the schema of the texts of a request for vectors.
pub(crate) fn texts(_: &mut SchemaGenerator) -> Schema {
    texts_or_tokens(0, MAX_TEXTS, "texts")
}

/// Makes the schema of a text, or of at most `MOST` texts.
pub(crate) fn text_or_texts<const MOST: usize>(_: &mut SchemaGenerator) -> Schema {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": text, "minItems": 1, "maxItems": MOST, "x-entries": "texts" });
    json_schema!({ "x-kind": "a string or an array of strings", "anyOf": [text, texts] })
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
        // Lists that mix both kinds are accepted, too, but generated clients cannot write them.
        "x-shown": { "oneOf": [text, tokens, list(&text), list(&tokens)] },
    })
}

/// Makes the schema of a tool whose function has no object of its own. Its arguments have a schema with the given name.
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

/// Makes the schema of messages that every model takes, of text or of parts described elsewhere.
pub(crate) fn messages(roles: &[&str], part: &str) -> Value {
    let role = json!({ "type": "string", "enum": roles });
    json!({ "type": "array", "minItems": 1, "items": {
        "type": "object", "required": ["role", "content"],
        "properties": { "role": role, "content": { "type": "string", "x-parts": part } },
    } })
}
