//! Fields of embeddings and rerank.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ReadApart, Text, shapes};
use crate::{
    limits::{MAX_DOCUMENTS, MAX_TEXTS},
    schema::Plain,
};

/// Fields of OpenAI's `embeddings`, which makes vectors.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Embeddings {
    /// Name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Texts to embed. A text that is too long for the model is refused with its number of tokens, unless the node has `truncate: true`.
    #[schemars(schema_with = "shapes::texts")]
    pub input: ReadApart,
    /// Form of vectors: numbers, or Base64 of little-endian 32-bit floats.
    #[schemars(extend("enum" = ["float", "base64"]))]
    pub encoding_format: Option<String>,
    /// Number of values that each vector keeps from its start; it is then scaled to length 1 again. Requires `allow_dimensions: true` on the node. The model's
    /// own number is always allowed.
    #[schemars(range(min = 1), extend("x-beyond" = true))]
    pub dimensions: Option<u32>,
    /// Number of tokens that each text keeps from its start, including the one that ends every text; -1 is the model's maximum.
    #[schemars(schema_with = "shapes::truncation", extend("x-beyond" = true))]
    pub truncate_prompt_tokens: Option<i64>,
}

/// Fields of `embeddings` that need no reading.
pub const EMBEDDINGS: &[Plain] = &plain! {
    /// Texts are cut at their end.
    "truncation_side": Only(&[r#""right""#]),
    /// Has no effect; accepted for compatibility.
    "user": Idle("string"),
};

/// Fields of embeddings that pooling also lists.
pub const LISTED: &[&str] = &["model", "input", "encoding_format", "dimensions"];

/// Fields of `pooling` that need no reading.
pub const POOLING: &[Plain] = &plain! {
    /// Each text has exactly one vector.
    "task": Only(&[r#""embed""#]),
};

/// Fields of vLLM's `score` requests.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Score {
    /// Name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Question, or one question for each text of `text_2`.
    #[schemars(schema_with = "shapes::text_or_texts::<MAX_DOCUMENTS>", extend("x-shown" = json!({ "type": "string" })))]
    pub text_1: Option<Text<String>>,
    /// Texts that should answer the question.
    #[schemars(schema_with = "shapes::text_or_texts::<MAX_DOCUMENTS>")]
    pub text_2: Option<Text<String>>,
    /// Number of tokens that each text keeps, as in `rerank`.
    #[schemars(schema_with = "shapes::truncation", extend("x-beyond" = true))]
    pub truncate_prompt_tokens: Option<i64>,
}

/// Fields of `score` that need no reading.
pub const SCORE: &[Plain] = &plain! {
    /// Alternative name of `text_1`.
    "data_1": Alias("text_1"),
    /// Alternative name of `text_1`.
    "queries": Alias("text_1"),
    /// Alternative name of `text_2`.
    "data_2": Alias("text_2"),
    /// Alternative name of `text_2`.
    "documents": Alias("text_2"),
    /// Alternative name of `text_2`.
    "items": Alias("text_2"),
    /// Texts are cut at their end.
    "truncation_side": Only(&[r#""right""#]),
    /// Scores are always from 0 to 1.
    "use_activation": Only(&["true"]),
};

/// Fields of vLLM's `classify`, which classifies texts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Classify {
    /// Name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Texts to classify. A text that is too long for the model is refused with its number of tokens.
    #[schemars(schema_with = "shapes::text_or_texts::<MAX_DOCUMENTS>")]
    pub input: Option<Text<String>>,
    /// Number of tokens that each text keeps, as in `rerank`.
    #[schemars(schema_with = "shapes::truncation", extend("x-beyond" = true))]
    pub truncate_prompt_tokens: Option<i64>,
    /// Returns probabilities, which is the default; with `false`, logits.
    pub use_activation: Option<bool>,
}

/// Fields of `classify` that need no reading.
pub const CLASSIFY: &[Plain] = &plain! {
    /// Alternative name of `use_activation`.
    "activation": Alias("use_activation"),
    /// Alternative name of `use_activation`.
    "softmax": Alias("use_activation"),
    /// Texts are cut at their end.
    "truncation_side": Only(&[r#""right""#]),
    /// Only texts can be classified: put them in `input`.
    "messages": Only(&[]),
    /// Has no effect; accepted for compatibility.
    "user": Idle("string"),
};

/// Fields of Cohere's `embed` requests.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CohereEmbed {
    /// Name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Texts to embed, as in `input` of `embeddings`.
    #[schemars(length(min = 1, max = MAX_TEXTS))]
    pub texts: Option<Vec<String>>,
    /// Forms of vectors, each under its own name in the answer: `float`, the default, and `base64`.
    #[schemars(schema_with = "types")]
    pub embedding_types: Vec<String>,
    /// Number of dimensions, as in `embeddings`.
    #[schemars(range(min = 1), extend("x-beyond" = true))]
    pub output_dimension: Option<u32>,
    /// Cuts the end of a text that is too long, or refuses the text; the default is the node's setting.
    #[schemars(extend("enum" = ["NONE", "END"]))]
    pub truncate: Option<String>,
    /// Has no effect: texts are embedded unchanged.
    #[schemars(extend("enum" = ["search_document", "search_query", "classification", "clustering"]))]
    pub input_type: Option<String>,
}

/// Fields of Cohere's `embed` that need no reading.
pub const EMBED: &[Plain] = &plain! {
    /// Only texts can be embedded.
    "images": Only(&["[]"]),
    /// The texts are in `texts`.
    "inputs": Only(&["[]"]),
};

/// Fields of `rerank`, which ranks documents.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rerank {
    /// Name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Question that the documents should answer.
    pub query: Option<String>,
    /// Documents: strings, or objects with a `text`, all of the same kind.
    #[schemars(length(min = 1, max = MAX_DOCUMENTS), extend("x-shown" = documents()))]
    pub documents: Option<Vec<Document>>,
    /// Maximum number of results; the default is all.
    #[schemars(range(min = 1))]
    pub top_n: Option<u32>,
    /// Adds the document of each result.
    pub return_documents: bool,
    /// Maximum number of pieces into which a document is split if it is too long beside the query; the default is no limit.
    #[schemars(range(min = 1))]
    pub max_chunks_per_doc: Option<u32>,
    /// Number of tokens to which each document is cut beside the query; -1 is the model's maximum.
    #[schemars(schema_with = "shapes::truncation", extend("x-beyond" = true))]
    pub truncate_prompt_tokens: Option<i64>,
}

/// Fields of `rerank` that need no reading.
pub const RERANK: &[Plain] = &plain! {
    /// Documents are cut at their end.
    "truncation_side": Only(&[r#""right""#]),
    /// Documents are ranked by their `text`.
    "rank_fields": Only(&[r#"["text"]"#]),
};

fn types(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 6,
        "items": { "type": "string", "enum": ["float", "base64"], "x-only": true },
        "x-shown": { "type": "array", "maxItems": 6, "items": { "enum": ["float", "base64"] } },
    })
}

/// A document to rank, as a string or in an object.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Document {
    /// Text of the document as a string.
    Text(String),
    /// Text of the document in an object.
    Object {
        /// Text of the document; other fields are ignored.
        text: String,
    },
}

/// Makes the schema of documents of one kind.
fn documents() -> Value {
    let text = json!({ "type": "string" });
    let object = json!({ "type": "object", "required": ["text"], "properties": { "text": text } });
    let list = |items: Value| json!({ "type": "array", "items": items, "minItems": 1, "maxItems": MAX_DOCUMENTS });
    json!({ "anyOf": [list(text), list(object)] })
}
