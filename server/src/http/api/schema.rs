//! Schemas of bodies, made of the table of fields that requests are checked against.

use graphmill_calculators::http::table::{self, Form};
use serde_json::{Map, Value, json};

/// What is known of the graphs that a document is about.
pub(super) struct Known<'a> {
    /// The names that requests can have for `model`.
    pub(super) models: &'a [&'a str],
    /// Tokens of the smallest vocabulary.
    pub(super) vocabulary: usize,
}

/// The body of an endpoint. That fields exclude each other is not in it.
pub(super) fn body(endpoint: &str, required: &[&str], known: &Known<'_>) -> Value {
    let mut properties = Map::new();
    let of_endpoint = table::fields().filter(|field| field.endpoints.contains(&endpoint));
    for field in of_endpoint {
        let mut schema = form(endpoint, field.name, field.form, known);
        if !required.contains(&field.name) {
            schema = json!({ "anyOf": [schema, { "type": "null" }] });
        }
        schema["description"] = json!(field.about);
        schema["x-form"] = json!(field.form.to_string());
        properties.insert(field.name.to_owned(), schema);
    }
    // The names are known, which is more than the table says.
    let mut model = json!({ "type": "string", "enum": known.models });
    if !required.contains(&"model") {
        model = json!({ "anyOf": [model, { "type": "null" }] });
    }
    model["description"] = json!("The graph that answers.");
    properties.insert("model".to_owned(), model);
    json!({ "type": "object", "properties": properties, "required": required })
}

fn form(endpoint: &str, name: &str, form: Form, known: &Known<'_>) -> Value {
    match form {
        // Shorter ones are taken, too, but who meets them is a matter of luck.
        Form::Above(_) if name == "timeout" => json!({ "type": "number", "minimum": 1 }),
        Form::Boolean => json!({ "type": "boolean" }),
        Form::Number(least, most) if most.is_finite() => {
            json!({ "type": "number", "minimum": least, "maximum": most })
        }
        Form::Number(least, _) => json!({ "type": "number", "minimum": least }),
        Form::Above(bound) => json!({ "type": "number", "exclusiveMinimum": bound }),
        Form::Integer(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Form::Limit(least) => {
            // Nothing is generated only for what repeats its prompt.
            let least = least.max(u32::from(endpoint == "completions").into());
            json!({ "anyOf": [
                { "type": "integer", "minimum": least, "maximum": u32::MAX }, { "const": -1 },
            ] })
        }
        Form::Text => json!({ "type": "string" }),
        Form::OneOf(texts) => json!({ "type": "string", "enum": texts }),
        Form::Object if name == "thinking" => json!({
            "type": "object", "required": ["type"],
            "properties": {
                "type": { "type": "string", "enum": ["enabled", "disabled", "adaptive"] },
                "budget_tokens": { "type": "integer", "minimum": 0, "maximum": u32::MAX },
            },
        }),
        Form::Object if name == "stream_options" => {
            let flag = json!({ "type": ["boolean", "null"] });
            json!({
                "type": "object", "additionalProperties": false,
                "properties": {
                    "include_usage": flag, "continuous_usage_stats": flag, "include_obfuscation": flag,
                },
            })
        }
        Form::Object if name == "tool_choice" => json!({
            "type": "object", "required": ["type"],
            "properties": { "type": { "type": "string", "enum": ["auto", "none"] } },
        }),
        Form::Object => json!({ "type": "object" }),
        Form::Array(most) => array(endpoint, name, most, known),
        Form::Only(values) => {
            let values: Vec<Value> = values
                .iter()
                .filter_map(|value| serde_json::from_str(value).ok())
                .collect();
            json!({ "enum": values })
        }
        Form::Own(_) => own(endpoint, name, known),
    }
}

/// An array, as far as a schema can say what is in it.
fn array(endpoint: &str, name: &str, most: usize, known: &Known<'_>) -> Value {
    let text = json!({ "type": "string" });
    match name {
        "documents" => {
            json!({ "type": "array", "items": text, "minItems": 1, "maxItems": most })
        }
        "texts" => json!({ "type": "array", "items": text, "minItems": 1, "maxItems": most }),
        "stop_sequences" => {
            let short = json!({ "type": "string", "minLength": 1, "maxLength": 1024 });
            json!({ "type": "array", "items": short, "maxItems": most })
        }
        "stop_token_ids" => {
            json!({ "type": "array", "items": token(known), "maxItems": most })
        }
        "include" => {
            json!({ "type": "array", "items": { "const": "reasoning.encrypted_content" }, "maxItems": most })
        }
        "tools" | "functions" => {
            json!({ "type": "array", "items": tool(endpoint, name), "maxItems": most })
        }
        _ => json!({ "type": "array", "maxItems": most }),
    }
}

/// A token of each graph's model.
fn token(known: &Known<'_>) -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": known.vocabulary.saturating_sub(1) })
}

/// A tool or a function that a request offers.
fn tool(endpoint: &str, field: &str) -> Value {
    let (text, object) = (
        json!({ "type": "string" }),
        json!({ "type": ["object", "null"] }),
    );
    let function = json!({
        "type": "object", "required": ["name"],
        "properties": { "name": text, "parameters": object },
    });
    let kind = json!({ "type": "string", "enum": ["function"] });
    match (endpoint, field) {
        ("messages", _) => json!({
            "type": "object", "required": ["name", "input_schema"],
            "properties": { "name": text, "input_schema": { "type": "object" } },
        }),
        ("responses", _) => json!({
            "type": "object", "required": ["type", "name"],
            "properties": { "type": kind, "name": text, "parameters": object },
        }),
        (_, "functions") => function,
        _ => json!({
            "type": "object", "required": ["type", "function"],
            "properties": { "type": kind, "function": function },
        }),
    }
}

/// What a field takes whose form only its reader knows, as far as a schema can say it.
fn own(endpoint: &str, name: &str, known: &Known<'_>) -> Value {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": text, "minItems": 1 });
    let tokens = json!({ "type": "array", "items": token(known), "minItems": 1 });
    let some = json!({ "type": "string", "minLength": 1 });
    let role = match endpoint {
        "messages" => json!({ "type": "string", "enum": ["user", "assistant"] }),
        // The template knows them.
        _ => json!({ "type": "string", "minLength": 1 }),
    };
    match name {
        "messages" => json!({
            "type": "array", "minItems": 1,
            "items": {
                "type": "object", "required": ["role", "content"],
                "properties": {
                    "role": role,
                    "content": text,
                },
            },
        }),
        "prompt" => json!({ "anyOf": [
            some, { "type": "array", "items": some, "minItems": 1 }, tokens,
            { "type": "array", "items": tokens, "minItems": 1 },
        ] }),
        "tokens" => json!({ "type": "array", "items": token(known) }),
        "input" if endpoint == "responses" => {
            let message = json!({
                "type": "object", "required": ["role", "content"],
                "properties": {
                    "role": { "type": "string", "enum": ["user", "assistant", "system", "developer"] },
                    "content": text,
                },
            });
            json!({ "anyOf": [text, { "type": "array", "items": message, "minItems": 1 }] })
        }
        // A tool can be demanded, too, if the request has it.
        "tool_choice" | "function_call" => json!({ "type": "string", "enum": ["none", "auto"] }),
        "stop" => json!({ "anyOf": [text, { "type": "array", "items": text, "maxItems": 16 }] }),
        "system" => text,
        "input" | "text" | "content" | "query" => json!({ "anyOf": [text, texts] }),
        _ => json!({}),
    }
}

/// An event of a stream.
pub(super) fn event() -> Value {
    json!({
        "type": "object", "required": ["data"],
        "properties": { "event": { "type": "string" }, "data": { "type": "string" } },
    })
}

/// What the document refers to.
pub(super) fn components() -> Value {
    let text_or_null = json!({ "type": ["string", "null"] });
    json!({
        "Error": {
            "type": "object", "required": ["error"],
            "properties": { "error": {
                "type": "object", "required": ["message", "type", "param", "code"],
                "properties": {
                    "message": { "type": "string" },
                    "type": { "type": "string" },
                    "param": text_or_null,
                    "code": text_or_null,
                },
            } },
        },
        "MessagesError": {
            "type": "object", "required": ["type", "error"],
            "properties": {
                "type": { "const": "error" },
                "error": {
                    "type": "object", "required": ["type", "message"],
                    "properties": { "type": { "type": "string" }, "message": { "type": "string" } },
                },
            },
        },
    })
}
