//! Schemas of bodies: their fields, and rules for combinations of fields.

use graphmill_calculators::{http::dialect::Place, llm::LlmOptions};
use graphmill_dialects::{
    bodies::{COMPLETIONS, DETOKENIZE, EMBEDDINGS, ENCODE, POOLING, TOKENIZE},
    schema,
};
use serde_json::{Map, Value, json};

use super::components;
use crate::{app::state::DocumentInputs, http::operation::Body};

impl DocumentInputs {
    /// Returns the names of all graphs.
    pub(super) fn names(&self) -> Vec<&str> {
        self.models.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Returns the names of the graphs that answer at an endpoint; of all graphs if none is known
    /// to.
    pub(super) fn names_at(&self, endpoint: &str) -> Vec<&str> {
        if self.answers_at(endpoint) {
            self.serving(endpoint).collect()
        } else {
            self.names()
        }
    }

    /// Returns true if a graph is known to answer at an endpoint, or may once it is loaded.
    pub(super) fn answers_at(&self, endpoint: &str) -> bool {
        self.serving(endpoint).next().is_some()
    }

    fn serving(&self, endpoint: &str) -> impl Iterator<Item = &str> {
        // A graph that can tokenize can also continue prompts.
        let endpoint = match endpoint {
            TOKENIZE | DETOKENIZE | ENCODE => COMPLETIONS,
            _ => endpoint,
        };
        let at = move |(_, endpoints): &&(String, Vec<&str>)| {
            endpoints.is_empty() || endpoints.contains(&endpoint)
        };
        self.models.iter().filter(at).map(|it| it.0.as_str())
    }
}

/// Returns the schema of an operation's body. `x-fields` lists additional fields: fields without a
/// schema, and for questions about a prompt the fields that do not change it.
pub(super) fn body(body: Body, known: &DocumentInputs) -> Value {
    let (endpoint, only) = (body.endpoint(), body.only());
    let mut required = body.route.required.to_vec();
    if body.dialect.needs_no_model() && known.names_at(endpoint).len() > 1 {
        required.push("model");
    }
    let mut properties = Map::new();
    let mut others = Map::new();
    let mut needs = Vec::new();
    let fields = schema::endpoint(endpoint).map(|endpoint| &endpoint.fields);
    for (name, field) in fields.into_iter().flatten() {
        let is_shown = only.is_none_or(|only| only.contains(&name.as_str()));
        // Generators of clients do not accept an `enum` without values.
        let has_values = field["enum"].as_array().is_none_or(|all| !all.is_empty());
        let is_property = is_shown && has_values && field["x-beyond"] != true;
        let mut schema = if is_property {
            shown(name, field, body, known)
        } else {
            json!({})
        };
        schema["description"] = field["description"].clone();
        schema["x-form"] = json!(schema::words(field));
        let list = if is_property {
            needs.extend(field["x-needs"].as_str().map(|switch| (&**name, switch)));
            &mut properties
        } else {
            &mut others
        };
        list.insert(name.clone(), schema);
    }
    if body.dialect.place() != Place::BehindTheGraph {
        let model = model(&required, &known.names_at(endpoint));
        properties.insert("model".to_owned(), model);
    }
    let rules = rules(&properties, &needs);
    let mut schema = json!({ "type": "object", "properties": properties, "required": required });
    if !rules.is_empty() {
        schema["dependentSchemas"] = json!(rules);
    }
    if !others.is_empty() {
        schema["x-fields"] = json!(others);
    }
    schema
}

/// Returns the schema of a field, with the values that every model accepts.
fn shown(name: &str, field: &Value, body: Body, known: &DocumentInputs) -> Value {
    let mut schema = field.clone();
    let [generating, embedding] = known.vocabularies;
    let most = match body.endpoint() {
        EMBEDDINGS | POOLING => embedding,
        _ => generating,
    };
    strip(&mut schema, most.saturating_sub(1));
    if let Value::Object(schema) = &mut schema {
        schema.shift_remove("description");
    }
    let options = LlmOptions::default();
    match name {
        // Lower values are accepted, but a request may not finish in time.
        "timeout" => schema = json!({ "type": "number", "minimum": 1 }),
        // The default limit of a graph that generates.
        "n" if body.only().is_none() && schema.get("maximum").is_some() => {
            schema["maximum"] = json!(options.node.best_of_limit - 1);
        }
        "priority" => {
            schema["minimum"] = json!(options.engine.min_priority);
            schema["maximum"] = json!(options.engine.max_priority);
        }
        _ => {}
    }
    if body.route.required.contains(&name) {
        schema
    } else {
        json!({ "anyOf": [schema, { "type": "null" }] })
    }
}

/// Removes keywords that only the checks use, and inserts the last token id of the model.
fn strip(schema: &mut Value, last_token: usize) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(|it| strip(it, last_token)),
        Value::Object(fields) => {
            if let Some(shown) = fields.shift_remove("x-shown") {
                *schema = shown;
                return strip(schema, last_token);
            }
            let part = fields.shift_remove("x-parts");
            fields.retain(|name, _| !name.starts_with("x-"));
            if fields.get("format").is_some_and(|format| format == "token") {
                fields.shift_remove("format");
                fields.insert("maximum".to_owned(), last_token.into());
            }
            let most = fields.get("maximum").and_then(Value::as_i64);
            if fields.get("type").is_some_and(|kind| kind == "integer")
                && most.is_some_and(|most| most > i64::from(i32::MAX))
            {
                fields.insert("format".to_owned(), "int64".into());
            }
            let values = fields.get("enum").and_then(Value::as_array);
            let only = values.filter(|all| all.len() == 1).map(|all| &all[0]);
            if let Some(only) = fields.get("const").or(only) {
                let only = exactly(only);
                *schema = only;
                return;
            }
            if let Some(values) = values {
                if values.iter().all(Value::is_string) {
                    fields.insert("type".to_owned(), "string".into());
                } else {
                    let each: Vec<Value> = values.iter().map(exactly).collect();
                    fields.shift_remove("enum");
                    fields.insert("anyOf".to_owned(), each.into());
                }
            }
            fields.values_mut().for_each(|it| strip(it, last_token));
            let required = fields.get("required").cloned().unwrap_or_default();
            let required = required.as_array().map_or(&[][..], Vec::as_slice);
            if let Some(Value::Object(inside)) = fields.get_mut("properties") {
                inside.retain(|_, field| field["enum"] != json!([]));
                // A field that is `null` counts as missing.
                for (_, field) in inside
                    .iter_mut()
                    .filter(|(name, _)| !required.contains(&json!(name)))
                {
                    *field = json!({ "anyOf": [field.take(), { "type": "null" }] });
                }
            }
            if let Some(Value::String(part)) = part {
                let parts = json!({ "type": "array", "items": components::reference(&part) });
                *schema = json!({ "oneOf": [schema, parts] });
            }
        }
        _ => {}
    }
}

/// Returns the schema of a constant. Generators of clients support `enum` with strings only.
fn exactly(value: &Value) -> Value {
    match value {
        Value::Array(values) => json!({
            "type": "array", "items": values.first().map_or(json!({}), exactly),
            "minItems": values.len(), "maxItems": values.len(),
        }),
        Value::Object(_) => json!({ "type": "object", "maxProperties": 0 }),
        Value::Bool(_) => json!({ "type": "boolean", "const": value }),
        Value::Number(_) => json!({ "type": "integer", "const": value }),
        _ => json!({ "type": "string", "const": value }),
    }
}

/// Returns the schema of the field that names the graph.
fn model(required: &[&str], names: &[&str]) -> Value {
    // The list of names is more precise than the field's own schema.
    let mut model = one_of(names);
    if !required.contains(&"model") {
        model = json!({ "anyOf": [model, { "type": "null" }] });
    }
    model["description"] = json!("The graph that answers.");
    model
}

/// Returns the schema of a graph's name; of any string if there are no graphs.
pub(super) fn one_of(names: &[&str]) -> Value {
    match names {
        [] => json!({ "type": "string" }),
        _ => json!({ "type": "string", "enum": names }),
    }
}

/// Returns the rules for fields that need another field. Each rule has two alternatives: the other
/// field is set, or this field has no effect. `needs` lists fields, each with the switch that it
/// needs.
fn rules(properties: &Map<String, Value>, needs: &[(&str, &str)]) -> Map<String, Value> {
    let mut rules = Map::new();
    let mut add = |field: &str, idle: Value, other: &str, set: Value| {
        let is_set = json!({ "properties": { other: set }, "required": [other] });
        let is_idle = json!({ "properties": { field: idle } });
        rules.insert(field.to_owned(), json!({ "anyOf": [is_set, is_idle] }));
    };
    let is_true = json!({ "const": true });
    for &(field, switch) in needs {
        add(field, json!({ "type": "null" }), switch, is_true.clone());
    }
    if properties.contains_key("top_logprobs") {
        let idle = json!({ "enum": [0, null] });
        add("top_logprobs", idle, "logprobs", is_true.clone());
    }
    if properties.contains_key("echo") {
        // Only `max_tokens` of 0 needs `echo`.
        let idle = json!({ "anyOf": [
            { "type": "integer", "minimum": 1 }, { "const": -1 }, { "type": "null" },
        ] });
        add("max_tokens", idle, "echo", is_true);
    }
    if properties.contains_key("pad_to_max_length") {
        let idle = json!({ "enum": [false, null] });
        let length = json!({ "type": "integer", "minimum": 1, "maximum": 1024 });
        add("pad_to_max_length", idle, "max_length", length);
    }
    rules
}
