//! Schemas that operations refer to: answers, events, errors and parts of messages.

use serde_json::{Map, Value, json};

/// The schemas. `x-one-of` maps values of `type` to the schemas of objects with this type.
/// `x-reads` names the medium that a model must read for a part of a message.
const COMPONENTS: &str = include_str!("components.json");

/// Returns the schemas for the document. Parts of messages are limited to the media in `reads`.
pub(super) fn components(reads: &[&str]) -> Value {
    let components: Map<String, Value> =
        serde_json::from_str(COMPONENTS).expect("the file is part of the program");
    let is_read = |name: &Value| match &components[name.as_str().unwrap_or_default()]["x-reads"] {
        Value::String(read) => reads.contains(&read.as_str()),
        _ => true,
    };
    let expanded = components.iter().map(|(name, schema)| {
        let schema = match schema["x-one-of"].as_object() {
            Some(forms) => one_of(schema, forms.iter().filter(|(_, form)| is_read(form))),
            None => schema.clone(),
        };
        (name.clone(), schema)
    });
    Value::Object(expanded.collect())
}

/// Returns the schema of objects whose form depends on `type`.
fn one_of<'a>(schema: &Value, forms: impl Iterator<Item = (&'a String, &'a Value)>) -> Value {
    let mapping: Map<String, Value> = forms
        .map(|(kind, name)| (kind.clone(), path(name.as_str().unwrap_or_default()).into()))
        .collect();
    let mut paths: Vec<&Value> = mapping.values().collect();
    paths.dedup();
    let forms: Vec<Value> = paths.iter().map(|path| json!({ "$ref": path })).collect();
    json!({
        "description": schema["description"], "oneOf": forms,
        "discriminator": { "propertyName": "type", "mapping": mapping },
    })
}

/// Returns a reference to a schema.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": path(name) })
}

fn path(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

/// Returns the names of the schemas of the answer at a path, and of the data in its events. `None`
/// if only some of the fields are specified.
pub(super) fn answer_at(path: &str) -> Option<(&'static str, &'static str)> {
    Some(match path {
        "/v3/chat/completions" => ("ChatCompletion", "ChatCompletionChunk"),
        "/v3/completions" => ("Completion", "Completion"),
        "/v3/responses" => ("Response", "ResponseStreamEvent"),
        "/v1/messages" => ("Message", "MessageStreamEvent"),
        "/v3/embeddings" => ("EmbeddingList", ""),
        "/v2/embed" => ("EmbeddingsByType", ""),
        "/v3/rerank" => ("Ranking", ""),
        "/v3/models" => ("ModelList", ""),
        "/v3/models/{*name}" => ("Model", ""),
        _ => return None,
    })
}

/// Returns the schema of a stream's event. Its data is JSON, except for the last event of streams
/// without event names. A stream can end with an error.
pub(super) fn event(carries: Option<&str>, error: &str) -> Value {
    let data = match carries {
        Some(carries) => json!({ "anyOf": [
            { "type": "string", "const": "[DONE]" },
            {
                "type": "string", "contentMediaType": "application/json",
                "contentSchema": { "anyOf": [reference(carries), reference(error)] },
            },
        ] }),
        None => json!({ "type": "string" }),
    };
    json!({
        "type": "object", "required": ["data"],
        "properties": { "event": { "type": "string" }, "data": data },
    })
}
