//! Names of attributes. Those of generative AI still change between versions of the semantic
//! conventions. These are from v0.1.0 of their own repository, and are used only here.

use graphmill_calculators::{
    http::dialect::{Family, Target},
    payload::JsonBody,
};
use opentelemetry::{Array, KeyValue, StringValue, Value};

pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const PROVIDER: &str = "gen_ai.provider.name";
pub(super) const AGENT: &str = "gen_ai.agent.name";
pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(super) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(super) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(super) const FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(super) const CACHED_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(super) const ERROR: &str = "error.type";

pub(super) const METHOD: &str = "http.request.method";
pub(super) const ROUTE: &str = "http.route";
pub(super) const PATH: &str = "url.path";
pub(super) const STATUS: &str = "http.response.status_code";

pub(super) const REQUEST_ID: &str = "graphmill.request_id";
pub(super) const NODE: &str = "graphmill.node";
pub(super) const CALCULATOR: &str = "graphmill.calculator";
pub(super) const CALLS: &str = "graphmill.calls";
pub(super) const BUSY: &str = "graphmill.busy_seconds";
pub(super) const QUEUE: &str = "graphmill.queue_seconds";
pub(super) const PREFILL: &str = "graphmill.prefill_seconds";
pub(super) const DECODE: &str = "graphmill.decode_seconds";

/// Operation name of the run of a graph.
pub(super) const RUN_GRAPH: &str = "invoke_workflow";

/// Provider name of all spans.
pub(super) const GRAPHMILL: &str = "graphmill";

/// The type of a request's field as an attribute.
#[derive(Copy, Clone)]
enum FieldType {
    Float,
    Int,
    Bool,
    Texts,
}

/// Prefix of the attributes of a request's fields.
const FIELD_PREFIX: &str = "gen_ai.request.";

/// Fields of requests with their attributes, without the prefix. A request has only one of several
/// fields with the same attribute.
const FIELDS: &[(&str, &str, FieldType)] = &[
    ("temperature", "temperature", FieldType::Float),
    ("top_p", "top_p", FieldType::Float),
    ("top_k", "top_k", FieldType::Int),
    ("max_tokens", "max_tokens", FieldType::Int),
    ("max_completion_tokens", "max_tokens", FieldType::Int),
    ("max_output_tokens", "max_tokens", FieldType::Int),
    ("seed", "seed", FieldType::Int),
    ("n", "choice.count", FieldType::Int),
    ("frequency_penalty", "frequency_penalty", FieldType::Float),
    ("presence_penalty", "presence_penalty", FieldType::Float),
    ("stream", "stream", FieldType::Bool),
    ("encoding_format", "encoding_formats", FieldType::Texts),
];

/// Returns attributes for the fields of a request, without its texts. Fields of a wrong type are
/// left out, as the graph refuses them.
pub(super) fn asked(body: &JsonBody) -> Vec<KeyValue> {
    let mut attributes: Vec<KeyValue> = Vec::new();
    for (field, name, kind) in FIELDS {
        let Some(given) = body.short(field) else {
            continue;
        };
        let value = match kind {
            FieldType::Float => given.as_f64().map(Value::F64),
            FieldType::Int => given.as_i64().map(Value::I64),
            FieldType::Bool => given.as_bool().map(Value::Bool),
            FieldType::Texts => given.as_str().map(|text| texts([text.to_owned()])),
        };
        let name = format!("{FIELD_PREFIX}{name}");
        let is_new = !attributes.iter().any(|it| it.key.as_str() == name);
        if let Some(value) = value.filter(|_| is_new) {
            attributes.push(KeyValue::new(name, value));
        }
    }
    attributes
}

/// Creates a list of strings.
pub(super) fn texts(values: impl IntoIterator<Item = impl Into<StringValue>>) -> Value {
    let values = values.into_iter().map(Into::into).collect();
    Value::Array(Array::String(values))
}

/// Returns the operation name for a dialect.
pub(super) fn operation(target: Option<Target>) -> &'static str {
    match target.map(|target| target.dialect.family()) {
        Some(Family::Vectors(_)) => "embeddings",
        Some(Family::Scores(_)) => "rerank",
        Some(Family::Text(text)) if text.continues_prompts() => "text_completion",
        Some(Family::Text(_)) | None => "chat",
    }
}
