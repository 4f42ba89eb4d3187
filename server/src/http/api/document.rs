//! Generation of `/openapi.json`.

use std::collections::BTreeMap;

use graphmill_calculators::http::dialect::{Dialect, Framing};
use serde_json::{Map, Value, json};

use super::{
    components::{self, reference},
    schema,
};
use crate::{
    app::state::DocumentInputs,
    errors::{self, Cause},
    http::{
        example, hugging_face, kserve,
        operation::{Answer, Operation, ParameterKind},
        torchserve,
    },
    servable::INFER,
};

/// Generates the document of operations, for the graphs in `known`.
pub(super) fn document(operations: &[Operation], known: &DocumentInputs) -> Value {
    let mut paths: BTreeMap<String, Value> = BTreeMap::new();
    for operation in operations.iter().filter(|operation| operation.listed) {
        let path = operation.path.replace("{*", "{");
        let mut described = describe(operation, &path, known);
        if let Some(others) = same_at(operation, operations) {
            described["description"] = others.into();
        }
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[operation.method] = described;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Graphmill",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Inference pipelines as graphs. The description of an operation lists other paths with the same effect.",
        },
        "paths": paths,
        "components": { "schemas": components::components(&known.reads) },
    })
}

/// Lists the other paths of an operation in a sentence; `None` if it has no others.
fn same_at(operation: &Operation, operations: &[Operation]) -> Option<String> {
    let is_same = |other: &&Operation| {
        let (method, summary) = (operation.method, operation.summary);
        !other.listed
            && (other.method, other.summary) == (method, summary)
            && bare(&other.path) == bare(&operation.path)
    };
    let others = operations.iter().filter(is_same);
    let others = others.map(|other| format!("`{}`", other.path.replace("{*", "{")));
    let others = others.collect::<Vec<_>>().join(", ");
    (!others.is_empty()).then(|| format!("Also available at {others}."))
}

/// Returns a path without the prefix of a dialect.
fn bare(path: &str) -> &str {
    let mut prefixes = ["/v3/v1", "/v3", "/v1"].into_iter();
    let behind = prefixes.find_map(|prefix| path.strip_prefix(prefix));
    behind.unwrap_or(path)
}

fn describe(operation: &Operation, path: &str, known: &DocumentInputs) -> Value {
    let mut described = json!({
        "summary": operation.summary,
        "operationId": operation_id(operation.method, path),
        "tags": [operation.group],
        "responses": responses(operation),
    });
    let (mut names, mut lacks) = (known.names(), false);
    if let Some(body) = operation.body {
        names = known.names_at(body.endpoint());
        lacks = !known.answers_at(body.endpoint());
        let mut schema = schema::body(body, known);
        let example = example::for_body(body, names.first());
        let mut content = json!({ "application/json": { "schema": schema, "example": example } });
        if let Some(file) = body.dialect.file_field() {
            schema["properties"][file] = json!({ "type": "string", "format": "binary" });
            content["multipart/form-data"] = json!({ "schema": schema });
        }
        described["requestBody"] = json!({ "required": true, "content": content });
    }
    if !operation.fields.is_empty() {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for field in operation.fields {
            let mut schema = kind(field.kind);
            schema["description"] = field.about.into();
            properties.insert(field.name.to_owned(), schema);
            if field.kind.is_required() {
                required.push(field.name);
            }
        }
        let schema = json!({
            "type": "object", "properties": properties, "required": required,
            "additionalProperties": false,
        });
        described["requestBody"] = json!({
            "required": !required.is_empty(),
            "content": { "application/json": {
                "schema": schema, "example": example::for_fields(operation.fields),
            } },
        });
    }
    if operation.path == kserve::INFER {
        names = known.names_at(INFER);
        if let Some((name, run)) = &known.run {
            // The graph of the example comes first.
            names.retain(|other| other != name);
            names.insert(0, name);
            described["requestBody"]["content"]["application/json"]["example"] = run.clone();
        }
        lacks = known.run.is_none();
    }
    if lacks {
        described["x-lacks"] = "No graph of this server answers at this path.".into();
    }
    if operation.takes_text {
        described["requestBody"] = json!({
            "required": true,
            "content": { "text/plain": { "schema": { "type": "string" } } },
        });
    }
    let mut parameters: Vec<Value> = Vec::new();
    for name in ["id", "name", "calculator"] {
        if path.contains(&format!("{{{name}}}")) {
            let values: &[&str] = if name == "name" { &names } else { &[] };
            parameters.push(json!({
                "name": name, "in": "path", "required": true, "schema": schema::one_of(values),
            }));
        }
    }
    if path.contains("{calculator}") {
        parameters[0]["example"] = "PassThroughCalculator".into();
    }
    parameters.extend(operation.query.iter().map(|parameter| {
        json!({
            "name": parameter.name, "in": "query", "required": parameter.kind.is_required(),
            "description": parameter.about, "schema": kind(parameter.kind),
        })
    }));
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    described
}

/// Returns the schema of a parameter.
fn kind(kind: ParameterKind) -> Value {
    match kind {
        ParameterKind::Text | ParameterKind::OptionalText => json!({ "type": "string" }),
        ParameterKind::Object => json!({ "type": "object" }),
        ParameterKind::Objects | ParameterKind::OptionalObjects => {
            json!({ "type": "array", "items": { "type": "object" } })
        }
        ParameterKind::OneOf(texts) => json!({ "type": "string", "enum": texts }),
        ParameterKind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        ParameterKind::Share => json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1 }),
        ParameterKind::Count(most) => json!({ "type": "integer", "minimum": 1, "maximum": most }),
        ParameterKind::Boolean => json!({ "type": "boolean" }),
    }
}

fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    format!("{method}_{}", words.join("_"))
}

/// Describes the answer of an operation, and each status of the error table that it can have
/// instead.
fn responses(operation: &Operation) -> Value {
    let mut responses: BTreeMap<String, Value> = BTreeMap::new();
    let mut add = |status: &str, description: &str, content: Value| {
        let mut response = json!({ "description": description });
        if !content.is_null() {
            response["content"] = content;
        }
        responses.insert(status.to_owned(), response);
    };
    let as_json = |schema: Value| json!({ "application/json": { "schema": schema } });
    let object = |fields: &[&str]| json!({ "type": "object", "required": fields });
    let dialect = operation.body.map(|body| body.dialect);
    let error = dialect.map_or("Error", Dialect::error_form);
    let form = if kserve::owns(&operation.path) {
        "KServeError"
    } else if torchserve::owns(&operation.path) {
        "TorchServeError"
    } else if hugging_face::owns(&operation.path) {
        graphmill_calculators::http::HUGGING_FACE_ERROR
    } else {
        error
    };
    for (status, causes) in by_status(operation.refusals(), dialect) {
        add(&status.to_string(), &causes, as_json(reference(form)));
    }
    let known = components::answer_at(&operation.path);
    let whole = |fields: &[&str]| {
        let schema = known.map_or_else(|| object(fields), |(whole, _)| reference(whole));
        as_json(schema)
    };
    match operation.answer {
        Answer::Json(fields) => add("200", "The answer", whole(fields)),
        Answer::JsonOrEvents(fields) => {
            let mut content = whole(fields);
            if dialect.map(Dialect::framing) == Some(Framing::Lines) {
                content["application/x-ndjson"] = json!({ "schema": {} });
            } else {
                let event = components::event(known.map(|(_, carries)| carries), error);
                content["text/event-stream"] = json!({ "schema": event });
            }
            let description = "The answer, or with `stream: true` a stream of events";
            add("200", description, content);
        }
        Answer::Events => {
            let events = json!({ "text/event-stream": { "schema": { "type": "string" } } });
            add("200", "Events", events);
        }
        Answer::List => {
            let list = json!({ "type": "array", "items": object(&[]) });
            add("200", "The answer", as_json(list));
        }
        Answer::Text(media_types) => {
            let text = json!({ "schema": { "type": "string" } });
            let forms = media_types.iter();
            let forms = forms.map(|form| ((*form).to_owned(), text.clone()));
            add("200", "The answer", Value::Object(forms.collect()));
        }
        Answer::Any => add("200", "The answer", json!({ "*/*": {} })),
        Answer::Nothing => add("204", "Done", Value::Null),
        Answer::Page => add("200", "The page", json!({ "text/html": {} })),
        Answer::Health => {
            add("200", "Yes", as_json(object(&[])));
            let no = "No, with the reason in the body";
            add("503", no, as_json(object(&[])));
        }
        Answer::Reload => {
            add("200", "Nothing has changed", as_json(object(&[])));
            let changed = "The new configuration is served";
            add("201", changed, as_json(object(&[])));
            let refused = as_json(object(&["error", "diagnostics"]));
            let missing = "The server has no configuration file; the old configuration stays";
            add("400", missing, refused.clone());
            let wrong = "The configuration has errors; the old one stays";
            add("412", wrong, refused);
        }
    }
    json!(responses)
}

/// Groups causes by status, each with its possible codes.
fn by_status(
    causes: impl Iterator<Item = Cause>,
    dialect: Option<&dyn Dialect>,
) -> BTreeMap<u16, String> {
    let mut statuses: BTreeMap<u16, String> = BTreeMap::new();
    for cause in causes {
        let row = errors::row(cause);
        let status = row.status.as_u16();
        let status = dialect.map_or(status, |dialect| dialect.status(status));
        let said = statuses.entry(status).or_insert_with(|| {
            let reason = row.status.canonical_reason().unwrap_or("Error");
            format!("{reason}: `{}`", row.kind)
        });
        if let Some(code) = row.code {
            said.extend([", `", code, "`"]);
        }
    }
    statuses
}
