//! Schemas of the fields of a body, made of the table that requests are checked against.

use graphmill_calculators::{
    http::{
        limits,
        table::{Field, Form},
    },
    llm::LlmOptions,
};
use serde_json::{Value, json};

use super::schema::Known;

/// Fields that a schema cannot describe: a value of theirs depends on the model, on another field's
/// value, or is in a language of its own. Requests can have them all the same.
const BEYOND_SCHEMAS: &[&str] = &[
    "assistant_confidence_threshold",
    "best_of",
    "continue_final_message",
    "dimensions",
    "function_call",
    "functions",
    "grammar",
    "guided_choice",
    "guided_grammar",
    "guided_json",
    "guided_regex",
    "json_schema",
    "logit_bias",
    "output_config",
    "output_dimension",
    "reasoning",
    "structured_outputs",
    "suffix",
];

/// The schema of a field that may be null; none where no schema can describe it.
pub(super) fn schema(endpoint: &str, field: &Field, known: &Known<'_>) -> Option<Value> {
    let is_object_of_text = field.name == "text" && endpoint == "responses";
    if is_object_of_text || BEYOND_SCHEMAS.contains(&field.name) {
        return None;
    }
    Some(form(endpoint, field.name, field.form, known))
}

fn form(endpoint: &str, name: &str, form: Form, known: &Known<'_>) -> Value {
    let options = LlmOptions::default();
    match form {
        // Shorter deadlines are accepted, but a request may miss them.
        Form::Above(_) if name == "timeout" => json!({ "type": "number", "minimum": 1 }),
        Form::Boolean => json!({ "type": "boolean" }),
        Form::Number(min, max) => json!({ "type": "number", "minimum": min, "maximum": max }),
        Form::Above(bound) => json!({ "type": "number", "exclusiveMinimum": bound }),
        // What a graph allows unless its options say otherwise.
        Form::Integer(min, _) if name == "n" => {
            json!({ "type": "integer", "minimum": min, "maximum": options.node.best_of_limit - 1 })
        }
        Form::Integer(..) if name == "priority" => {
            json!({ "type": "integer", "minimum": options.engine.min_priority, "maximum": options.engine.max_priority })
        }
        Form::Integer(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Form::Limit(min) => json!({ "anyOf": [
            { "type": "integer", "minimum": min, "maximum": u32::MAX }, { "const": -1 },
        ] }),
        Form::Text if name == "cache_salt" => json!({ "type": "string", "minLength": 1 }),
        Form::Text => json!({ "type": "string" }),
        Form::OneOf(texts) => json!({ "type": "string", "enum": texts }),
        Form::Object => object(name),
        Form::Array(max) => array(endpoint, name, max, known),
        Form::Only(values) => {
            let values = values.iter();
            let values = values.filter_map(|value| serde_json::from_str(value).ok());
            json!({ "enum": values.collect::<Vec<Value>>() })
        }
        Form::Own(_) => own(endpoint, name, known),
    }
}

fn object(name: &str) -> Value {
    match name {
        "thinking" => json!({
            "type": "object", "required": ["type"],
            "properties": {
                "type": { "type": "string", "enum": ["enabled", "disabled", "adaptive"] },
                "budget_tokens": { "type": "integer", "minimum": 0, "maximum": u32::MAX },
            },
        }),
        "stream_options" => {
            let flag = json!({ "type": ["boolean", "null"] });
            json!({
                "type": "object", "additionalProperties": false,
                "properties": {
                    "include_usage": flag, "continuous_usage_stats": flag, "include_obfuscation": flag,
                },
            })
        }
        "tool_choice" => json!({
            "type": "object", "required": ["type"],
            "properties": { "type": { "type": "string", "enum": ["auto", "none"] } },
        }),
        _ => json!({ "type": "object" }),
    }
}

fn array(endpoint: &str, name: &str, max: usize, known: &Known<'_>) -> Value {
    let text = json!({ "type": "string" });
    match (endpoint, name) {
        ("chat/completions", "documents") => {
            json!({ "type": "array", "items": { "type": ["string", "object"] }, "maxItems": max })
        }
        (_, "documents") => json!({ "anyOf": [
            { "type": "array", "items": text, "minItems": 1, "maxItems": max },
            { "type": "array", "items": {
                "type": "object", "required": ["text"], "properties": { "text": text },
            }, "minItems": 1, "maxItems": max },
        ] }),
        (_, "texts") => json!({ "type": "array", "items": text, "minItems": 1, "maxItems": max }),
        (_, "embedding_types") => {
            json!({ "type": "array", "items": { "enum": ["float", "base64"] }, "maxItems": max })
        }
        (_, "stop_sequences") => {
            json!({ "type": "array", "items": short_text(limits::MAX_STOP_CHARS), "maxItems": max })
        }
        (_, "dry_sequence_breakers") => {
            json!({ "type": "array", "items": short_text(limits::MAX_BREAKER_CHARS), "maxItems": max })
        }
        (_, "stop_token_ids") => {
            json!({ "type": "array", "items": token(known.vocabulary), "maxItems": max })
        }
        (_, "include") => {
            json!({ "type": "array", "items": { "const": "reasoning.encrypted_content" }, "maxItems": max })
        }
        (_, "tools") => json!({ "type": "array", "items": tool(endpoint), "maxItems": max }),
        _ => json!({ "type": "array", "maxItems": max }),
    }
}

/// A text of 1 to so many characters.
fn short_text(max: usize) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": max })
}

/// A token of a vocabulary.
fn token(vocabulary: usize) -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": vocabulary.saturating_sub(1) })
}

/// A tool that a request offers.
fn tool(endpoint: &str) -> Value {
    let text = json!({ "type": "string", "minLength": 1 });
    // A `type` that is a text is that of an object, as arguments are one.
    let properties = json!({ "type": { "anyOf": [
        { "const": "object" },
        { "type": ["array", "boolean", "null", "number", "object"] },
    ] } });
    let parameters = json!({ "type": ["object", "null"], "properties": properties });
    let kind = json!({ "type": "string", "enum": ["function"] });
    match endpoint {
        "messages" => json!({
            "type": "object", "required": ["name", "input_schema"],
            "properties": { "name": text, "input_schema": { "type": "object", "properties": properties } },
        }),
        "responses" => json!({
            "type": "object", "required": ["type", "name"],
            "properties": { "type": kind, "name": text, "parameters": parameters },
        }),
        _ => json!({
            "type": "object", "required": ["type", "function"],
            "properties": { "type": kind, "function": {
                "type": "object", "required": ["name"],
                "properties": { "name": text, "parameters": parameters },
            } },
        }),
    }
}

/// A message with text.
fn message(roles: &Value) -> Value {
    json!({
        "type": "object", "required": ["role", "content"],
        "properties": { "role": roles, "content": { "type": "string" } },
    })
}

/// What a field takes whose form only its reader knows.
fn own(endpoint: &str, name: &str, known: &Known<'_>) -> Value {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": text, "minItems": 1 });
    let some = json!({ "type": "string", "minLength": 1 });
    let vocabulary = match endpoint {
        "embeddings" => known.embedding_vocabulary,
        _ => known.vocabulary,
    };
    let tokens = json!({ "type": "array", "items": token(vocabulary), "minItems": 1 });
    match (endpoint, name) {
        ("messages", "messages") => {
            let role = json!({ "type": "string", "enum": ["user", "assistant"] });
            json!({ "type": "array", "items": message(&role), "minItems": 1 })
        }
        // The template knows which roles need a content, and may know others than these.
        (_, "messages") => {
            let roles = [
                "system",
                "developer",
                "user",
                "assistant",
                "tool",
                "function",
            ];
            let message = json!({
                "type": "object", "required": ["role"],
                "properties": { "role": { "type": "string", "enum": roles }, "content": { "type": ["string", "null"] } },
            });
            json!({ "type": "array", "items": message, "minItems": 1 })
        }
        ("responses", "input") => {
            let role =
                json!({ "type": "string", "enum": ["user", "assistant", "system", "developer"] });
            json!({ "anyOf": [text, { "type": "array", "items": message(&role), "minItems": 1 }] })
        }
        (_, "prompt") => json!({ "anyOf": [
            some, tokens,
            { "type": "array", "items": { "anyOf": [some, tokens] }, "minItems": 1, "maxItems": limits::MAX_PROMPTS },
        ] }),
        (_, "input") => json!({ "anyOf": [
            text, tokens,
            { "type": "array", "items": { "anyOf": [text, tokens] }, "minItems": 1, "maxItems": limits::MAX_TEXTS },
        ] }),
        (_, "tokens") => json!({ "type": "array", "items": token(known.vocabulary) }),
        // A call can be demanded, too, if the request has the tool.
        (_, "tool_choice") => json!({ "type": "string", "enum": ["none", "auto"] }),
        (_, "text_input") => some,
        // An empty one stops nowhere.
        (_, "stop_words") => json!({ "anyOf": [
            { "type": "string", "maxLength": limits::MAX_STOP_CHARS },
            { "type": "array", "items": short_text(limits::MAX_STOP_CHARS), "maxItems": limits::MAX_STOPS },
        ] }),
        (_, "stop") => json!({ "anyOf": [
            short_text(limits::MAX_STOP_CHARS), { "type": "array", "items": short_text(limits::MAX_STOP_CHARS), "maxItems": limits::MAX_STOPS },
        ] }),
        ("audio/transcriptions", "file") => {
            json!({ "type": "string", "contentEncoding": "base64" })
        }
        (_, "response_format") => response_format(),
        (_, "text") => json!({ "anyOf": [text, texts] }),
        (_, "system") => text,
        _ => json!({}),
    }
}

fn response_format() -> Value {
    let name = json!({ "anyOf": [
        { "type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$" }, { "type": "null" },
    ] });
    json!({ "anyOf": [
        {
            "type": "object", "required": ["type"],
            "properties": { "type": { "enum": ["text", "json_object"] } },
        },
        {
            "type": "object", "required": ["type", "json_schema"],
            "properties": {
                "type": { "const": "json_schema" },
                "json_schema": {
                    "type": "object", "required": ["schema"],
                    "properties": {
                        "name": name,
                        "strict": { "type": ["boolean", "null"] },
                        "schema": { "anyOf": [{ "type": "object" }, { "const": true }] },
                    },
                },
            },
        },
    ] })
}
