//! Generation of `/openapi.json`.

use std::collections::BTreeMap;

use graphmill_calculators::http::dialect::{Dialect, Framing};
use serde_json::{Map, Value, json};

use super::{
    components::{self, reference},
    schema::{self, DescribedGraphs},
};
use crate::{
    errors::{self, Cause},
    http::{
        example, hugging_face, kserve,
        operation::{Answer, Kind, Operation, Parameter},
        torchserve,
    },
    servable::INFER,
};

/// Generates the document of operations, for the graphs in `known`.
pub(super) fn document(operations: &[Operation], known: &DescribedGraphs<'_>) -> Value {
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
        "components": { "schemas": components::components(known.reads) },
    })
}

/// Lists the other paths of an operation in a sentence; `None` if it has no others.
fn same_at(operation: &Operation, operations: &[Operation]) -> Option<String> {
    let bare = |path: &str| {
        let prefixes = ["/v3/v1", "/v3", "/v1"].into_iter();
        let mut behind = prefixes.filter_map(|prefix| path.strip_prefix(prefix).map(str::to_owned));
        behind.next().unwrap_or_else(|| path.to_owned())
    };
    let is_same = |other: &&Operation| {
        let (method, summary) = (operation.method, operation.summary);
        !other.listed
            && (other.method, other.summary) == (method, summary)
            && bare(&other.path) == bare(&operation.path)
    };
    let others = operations.iter().filter(is_same);
    let others: Vec<String> = others
        .map(|other| format!("`{}`", other.path.replace("{*", "{")))
        .collect();
    (!others.is_empty()).then(|| format!("Also available at {}.", others.join(", ")))
}

fn describe(operation: &Operation, path: &str, known: &DescribedGraphs<'_>) -> Value {
    let mut described = json!({
        "summary": operation.summary,
        "operationId": operation_id(operation.method, path),
        "tags": [operation.group],
        "responses": responses(operation),
    });
    let mut lacks = false;
    if let Some(body) = operation.body {
        let schema = schema::body(body, known);
        described["requestBody"] = json!({
            "required": true,
            "content": { "application/json": {
                "schema": schema,
                "example": example::for_body(body, known.names_at(body.endpoint()).first()),
            } },
        });
        lacks = !known.answers_at(body.endpoint());
        if let Some(file) = body.dialect.file_field() {
            let mut schema = schema::body(body, known);
            schema["properties"][file] = json!({ "type": "string", "format": "binary" });
            described["requestBody"]["content"]["multipart/form-data"] =
                json!({ "schema": schema });
        }
    }
    if !operation.fields.is_empty() {
        let fields = operation.fields.iter();
        let fields = fields.map(|field| (field.name.to_owned(), described_field(field)));
        let fields: Map<String, Value> = fields.collect();
        let needed = operation.fields.iter();
        let needed = needed.filter(|field| field.kind.is_required());
        let required: Vec<&str> = needed.map(|field| field.name).collect();
        let schema = json!({
            "type": "object", "properties": fields, "required": required,
            "additionalProperties": false,
        });
        described["requestBody"] = json!({
            "required": !required.is_empty(),
            "content": { "application/json": {
                "schema": schema, "example": example::for_fields(operation.fields),
            } },
        });
    }
    let mut names = operation
        .body
        .map_or_else(|| known.names(), |body| known.names_at(body.endpoint()));
    if operation.path == kserve::INFER {
        names = known.names_at(INFER);
        if let Some((name, run)) = known.run {
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
    if path.contains("{id}") {
        parameters.push(json!({
            "name": "id", "in": "path", "required": true, "schema": { "type": "string" },
        }));
    }
    if path.contains("{name}") {
        parameters.push(json!({
            "name": "name", "in": "path", "required": true, "schema": schema::one_of(&names),
        }));
    }
    if path.contains("{calculator}") {
        parameters.push(json!({
            "name": "calculator", "in": "path", "required": true, "schema": { "type": "string" },
            "example": "PassThroughCalculator",
        }));
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

fn described_field(field: &Parameter) -> Value {
    let mut schema = kind(field.kind);
    schema["description"] = field.about.into();
    schema
}

/// Returns the schema of a parameter.
fn kind(kind: Kind) -> Value {
    match kind {
        Kind::Text | Kind::OptionalText => json!({ "type": "string" }),
        Kind::Object => json!({ "type": "object" }),
        Kind::Objects | Kind::OptionalObjects => {
            json!({ "type": "array", "items": { "type": "object" } })
        }
        Kind::OneOf(texts) => json!({ "type": "string", "enum": texts }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Share => json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1 }),
        Kind::Count(most) => json!({ "type": "integer", "minimum": 1, "maximum": most }),
        Kind::Boolean => json!({ "type": "boolean" }),
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
    let error = operation.body.map(|body| body.dialect.error_form());
    let error = error.unwrap_or("Error");
    let mut responses: BTreeMap<String, Value> = BTreeMap::new();
    let dialect = operation.body.map(|body| body.dialect);
    for (status, causes) in by_status(operation.refusals(), dialect) {
        let form = if kserve::owns(&operation.path) {
            "KServeError"
        } else if torchserve::owns(&operation.path) {
            "TorchServeError"
        } else if hugging_face::owns(&operation.path) {
            graphmill_calculators::http::HUGGING_FACE_ERROR
        } else {
            error
        };
        let failure = content("application/json", &causes, &reference(form));
        responses.insert(status.to_string(), failure);
    }
    let object = |fields: &[&str]| json!({ "type": "object", "required": fields });
    let known = components::answer_at(&operation.path);
    let whole = |fields: &[&str]| match known {
        Some((whole, _)) => reference(whole),
        None => object(fields),
    };
    match operation.answer {
        Answer::Json(fields) => {
            let answer = content("application/json", "The answer", &whole(fields));
            responses.insert("200".to_owned(), answer);
        }
        Answer::JsonOrEvents(fields) => {
            let mut answer = content("application/json", "The answer", &whole(fields));
            let event = components::event(known.map(|(_, carries)| carries), error);
            if dialect.map(Dialect::framing) == Some(Framing::Lines) {
                answer["content"]["application/x-ndjson"] = json!({ "schema": {} });
            } else {
                answer["content"]["text/event-stream"] = json!({ "schema": event });
            }
            answer["description"] = json!("The answer, or with `stream: true` a stream of events");
            responses.insert("200".to_owned(), answer);
        }
        Answer::Events => {
            let events = content("text/event-stream", "Events", &json!({ "type": "string" }));
            responses.insert("200".to_owned(), events);
        }
        Answer::List => {
            let list = json!({ "type": "array", "items": object(&[]) });
            responses.insert(
                "200".to_owned(),
                content("application/json", "The answer", &list),
            );
        }
        Answer::Text(media_types) => {
            let text = json!({ "schema": { "type": "string" } });
            let forms = media_types
                .iter()
                .map(|form| ((*form).to_owned(), text.clone()));
            let forms: Map<String, Value> = forms.collect();
            let answer = json!({ "description": "The answer", "content": forms });
            responses.insert("200".to_owned(), answer);
        }
        Answer::Any => {
            let any = json!({ "description": "The answer", "content": { "*/*": {} } });
            responses.insert("200".to_owned(), any);
        }
        Answer::Nothing => {
            let done = json!({ "description": "Done" });
            responses.insert("204".to_owned(), done);
        }
        Answer::Page => {
            let page = json!({ "description": "The page", "content": { "text/html": {} } });
            responses.insert("200".to_owned(), page);
        }
        Answer::Health => {
            let yes = content("application/json", "Yes", &object(&[]));
            let no = content(
                "application/json",
                "No, with the reason in the body",
                &object(&[]),
            );
            responses.insert("200".to_owned(), yes);
            responses.insert("503".to_owned(), no);
        }
        Answer::Reload => {
            let refused = object(&["error", "diagnostics"]);
            let told = [
                ("200", "Nothing has changed", object(&[])),
                ("201", "The new configuration is served", object(&[])),
                (
                    "400",
                    "The server has no configuration file; the old configuration stays",
                    refused.clone(),
                ),
                (
                    "412",
                    "The configuration has errors; the old one stays",
                    refused,
                ),
            ];
            for (status, what, schema) in told {
                let answer = content("application/json", what, &schema);
                responses.insert(status.to_owned(), answer);
            }
        }
    }
    json!(responses)
}

fn content(media_type: &str, description: &str, schema: &Value) -> Value {
    let content = Map::from_iter([(media_type.to_owned(), json!({ "schema": schema }))]);
    json!({ "description": description, "content": content })
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
