//! Schemas of bodies, made of the table of fields that requests are checked against.

use graphmill_calculators::http::table::{self, Form};
use serde_json::{Map, Value, json};

/// The body of an endpoint.
pub(super) fn body(endpoint: &str, required: &[&str], models: &[&str]) -> Value {
    let mut properties = Map::new();
    let of_endpoint = table::fields().filter(|field| field.endpoints.contains(&endpoint));
    for field in of_endpoint {
        let mut schema = form(field.name, field.form);
        if !required.contains(&field.name) {
            schema = json!({ "anyOf": [schema, { "type": "null" }] });
        }
        schema["description"] = json!(field.about);
        schema["x-form"] = json!(field.form.to_string());
        properties.insert(field.name.to_owned(), schema);
    }
    // The names are known, which is more than the table says.
    properties.insert(
        "model".to_owned(),
        json!({ "type": "string", "enum": models, "description": "The graph that answers." }),
    );
    json!({ "type": "object", "properties": properties, "required": required })
}

fn form(name: &str, form: Form) -> Value {
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
        Form::Limit(least) => json!({ "anyOf": [
            { "type": "integer", "minimum": least, "maximum": u32::MAX }, { "const": -1 },
        ] }),
        Form::Text => json!({ "type": "string" }),
        Form::OneOf(texts) => json!({ "type": "string", "enum": texts }),
        Form::Object if name == "thinking" => json!({
            "type": "object", "required": ["type"],
            "properties": {
                "type": { "type": "string", "enum": ["enabled", "disabled", "adaptive"] },
                "budget_tokens": { "type": "integer", "minimum": 0, "maximum": u32::MAX },
            },
        }),
        Form::Object => json!({ "type": "object" }),
        Form::Array(most) => array(name, most),
        Form::Only(values) => {
            let values: Vec<Value> = values
                .iter()
                .filter_map(|value| serde_json::from_str(value).ok())
                .collect();
            json!({ "enum": values })
        }
        Form::Own(_) => own(name),
    }
}

/// An array, as far as a schema can say what is in it.
fn array(name: &str, most: usize) -> Value {
    let text = json!({ "type": "string" });
    match name {
        "documents" => {
            json!({ "type": "array", "items": text, "minItems": 1, "maxItems": most })
        }
        "texts" => json!({ "type": "array", "items": text, "minItems": 1, "maxItems": most }),
        "include" => {
            json!({ "type": "array", "items": { "const": "reasoning.encrypted_content" }, "maxItems": most })
        }
        _ => json!({ "type": "array", "maxItems": most }),
    }
}

/// What a field takes whose form only its reader knows, as far as a schema can say it.
fn own(name: &str) -> Value {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": text, "minItems": 1 });
    let tokens =
        json!({ "type": "array", "items": { "type": "integer", "minimum": 0 }, "minItems": 1 });
    match name {
        "messages" => json!({
            "type": "array", "minItems": 1,
            "items": {
                "type": "object", "required": ["role", "content"],
                "properties": {
                    "role": { "type": "string", "enum": ["user", "assistant"] },
                    "content": text,
                },
            },
        }),
        "prompt" => json!({ "anyOf": [
            { "type": "string", "minLength": 1 }, texts, tokens,
            { "type": "array", "items": tokens, "minItems": 1 },
        ] }),
        "tokens" => tokens,
        "input" | "text" | "content" | "stop" | "query" => json!({ "anyOf": [text, texts] }),
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
