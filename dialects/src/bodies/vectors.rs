//! Fields of embeddings and rerank.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ReadApart, Text, shapes};
use crate::{
    limits::{MAX_DOCUMENTS, MAX_TEXTS},
    schema::Plain,
};

/// Fields of embeddings.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Embeddings {
    /// The name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// The texts. One that is too long for the model is refused with its count of tokens, unless the node has `truncate: true`.
    #[schemars(schema_with = "shapes::texts")]
    pub input: ReadApart,
    /// Form of vectors: numbers, or base64 of 32-bit floats, the lowest byte first.
    #[schemars(extend("enum" = ["float", "base64"]))]
    pub encoding_format: Option<String>,
    /// The first so many numbers of each vector, made of length 1 again, where the node has `allow_dimensions: true`. The model's own number is always right.
    #[schemars(range(min = 1), extend("x-beyond" = true))]
    pub dimensions: Option<u32>,
    /// Cuts each text to its first so many tokens, with the one that ends every text; with -1 to those that the model reads.
    #[schemars(schema_with = "shapes::truncation", extend("x-beyond" = true))]
    pub truncate_prompt_tokens: Option<i64>,
}

/// The others of embeddings.
pub const EMBEDDINGS: &[Plain] = &plain! {
    /// Texts are cut at their end.
    "truncation_side": Only(&[r#""right""#]),
    /// Without effect.
    "user": Idle("string"),
};

/// Fields of embeddings that pooling has, too.
pub const LISTED: &[&str] = &["model", "input", "encoding_format", "dimensions"];

/// The others of pooling.
pub const POOLING: &[Plain] = &plain! {
    /// Each text has one vector.
    "task": Only(&[r#""embed""#]),
};

/// Fields of vLLM's score.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Score {
    /// The name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// The question, or one for each text of `text_2`.
    #[schemars(schema_with = "compared", extend("x-shown" = json!({ "type": "string" })))]
    pub text_1: Option<Text<String>>,
    /// The texts that should answer it.
    #[schemars(schema_with = "compared")]
    pub text_2: Option<Text<String>>,
    /// As in rerank.
    #[schemars(schema_with = "shapes::truncation", extend("x-beyond" = true))]
    pub truncate_prompt_tokens: Option<i64>,
}

/// The others of score.
pub const SCORE: &[Plain] = &plain! {
    /// The same as `text_1`.
    "data_1": Alias("text_1"),
    /// The same as `text_1`.
    "queries": Alias("text_1"),
    /// The same as `text_2`.
    "data_2": Alias("text_2"),
    /// The same as `text_2`.
    "documents": Alias("text_2"),
    /// The same as `text_2`.
    "items": Alias("text_2"),
    /// Texts are cut at their end.
    "truncation_side": Only(&[r#""right""#]),
    /// Scores are from 0 to 1.
    "use_activation": Only(&["true"]),
};

/// Fields of vLLM's classify.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Classify {
    /// The name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// The texts. One that is too long for the model is refused with its count of tokens.
    #[schemars(schema_with = "compared")]
    pub input: Option<Text<String>>,
    /// As in embeddings.
    #[schemars(schema_with = "shapes::truncation", extend("x-beyond" = true))]
    pub truncate_prompt_tokens: Option<i64>,
    /// Tells probabilities, which is usual; with `false`, logits.
    pub use_activation: Option<bool>,
}

/// The others of classify.
pub const CLASSIFY: &[Plain] = &plain! {
    /// The same as `use_activation`.
    "activation": Alias("use_activation"),
    /// The same as `use_activation`.
    "softmax": Alias("use_activation"),
    /// Texts are cut at their end.
    "truncation_side": Only(&[r#""right""#]),
    /// Inputs are texts.
    "messages": Only(&[]),
    /// Without effect.
    "user": Idle("string"),
};

/// The texts of a comparison.
fn compared(_: &mut SchemaGenerator) -> Schema {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": text, "minItems": 1, "maxItems": MAX_DOCUMENTS, "x-entries": "texts" });
    json_schema!({ "x-kind": "a string or an array of strings", "anyOf": [text, texts] })
}

/// Fields of Cohere's embed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Embed {
    /// The name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// The texts, as `input` of `embeddings`.
    #[schemars(length(min = 1, max = MAX_TEXTS))]
    pub texts: Option<Vec<String>>,
    /// Form of vectors, each under its name: `float`, which is meant where nothing is said, and `base64`.
    #[schemars(schema_with = "types")]
    pub embedding_types: Vec<String>,
    /// As `dimensions` of `embeddings`.
    #[schemars(range(min = 1), extend("x-beyond" = true))]
    pub output_dimension: Option<u32>,
    /// Cuts a text that is too long at its end, or refuses it; without it as the node has it.
    #[schemars(extend("enum" = ["NONE", "END"]))]
    pub truncate: Option<String>,
    /// Without effect: texts are read as they are.
    #[schemars(extend("enum" = ["search_document", "search_query", "classification", "clustering"]))]
    pub input_type: Option<String>,
}

/// The others of embed.
pub const EMBED: &[Plain] = &plain! {
    /// Inputs are text.
    "images": Only(&["[]"]),
    /// Texts are in `texts`.
    "inputs": Only(&["[]"]),
};

/// Fields of rerank.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rerank {
    /// The name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Question that the documents should answer.
    pub query: Option<String>,
    /// Strings, or objects with a `text`; all of one kind.
    #[schemars(length(min = 1, max = MAX_DOCUMENTS), extend("x-shown" = documents()))]
    pub documents: Option<Vec<Document>>,
    /// Maximum number of results; all without it.
    #[schemars(range(min = 1))]
    pub top_n: Option<u32>,
    /// Adds each result's document.
    pub return_documents: bool,
    /// Maximum number of pieces of a document that is too long for the model beside the query; all
    /// without it.
    #[schemars(range(min = 1))]
    pub max_chunks_per_doc: Option<u32>,
    /// Cuts each document, so that it takes at most so many tokens beside the query; with -1 those that the model reads.
    #[schemars(schema_with = "shapes::truncation", extend("x-beyond" = true))]
    pub truncate_prompt_tokens: Option<i64>,
}

/// The others of rerank.
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

/// A document to rank.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Document {
    /// Its text.
    Text(String),
    /// Its text in an object.
    Object {
        /// The text.
        text: String,
    },
}

/// The schema of documents of one kind.
fn documents() -> Value {
    let text = json!({ "type": "string" });
    let object = json!({ "type": "object", "required": ["text"], "properties": { "text": text } });
    let list = |items: Value| json!({ "type": "array", "items": items, "minItems": 1, "maxItems": MAX_DOCUMENTS });
    json!({ "anyOf": [list(text), list(object)] })
}
