//! The schemas that operations refer to: answers, events, errors and parts of messages.

use serde_json::{Map, Value, json};

/// The schemas, in which `x-one-of` maps the values of `type` to the schemas of objects that have
/// it, and `x-reads` names what a model has to read for a part of a message.
const COMPONENTS: &str = include_str!("components.json");

/// The schemas that the document refers to, with the parts of messages that take no more than
/// `reads` of a model.
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

/// The schema of objects whose `type` tells their form.
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

/// A reference to a schema.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": path(name) })
}

fn path(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

/// The schemas of the answer at a path and of what its events carry. None where only some of its
/// fields are known.
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

/// The schema of an event of a stream. What it carries is JSON, but for the last event of streams
/// whose events have no names; a stream can end with an error.
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
