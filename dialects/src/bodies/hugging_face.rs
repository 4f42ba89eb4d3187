//! Fields of Hugging Face's servers: Text Generation Inference (TGI), whose body LightLLM shares, and Text Embeddings Inference (TEI).

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Text, shapes};
use crate::{
    limits::{MAX_DOCUMENTS, MAX_TEXTS},
    schema::Plain,
};

/// Fields of TGI's `generate` at the top level of the body.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Generate {
    /// Text to continue, as in `prompt` of completions.
    #[schemars(length(min = 1))]
    pub inputs: Option<String>,
    /// Object with the fields below and any other of completions. These can also be beside `inputs`, but not in both places.
    pub parameters: Map<String, Value>,
    /// Form of the answer. The default is `generate_form` of the graph in `config.json`.
    #[schemars(extend("enum" = ["tgi", "lightllm"]))]
    pub generate_form: Option<String>,
}

/// Fields of TGI's `generate` that can be in `parameters`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Parameters {
    /// Maximum number of tokens of the text; the default is 100.
    #[schemars(schema_with = "shapes::limit::<1>")]
    pub max_new_tokens: Option<i64>,
    /// Samples tokens. Without it, and without `temperature`, `top_k`, `top_p` or `typical_p`, the most likely token is always chosen.
    pub do_sample: bool,
    /// Adds `details`: the reason why the text ended, and its tokens with their log probabilities.
    pub details: bool,
    /// Adds `details` in LightLLM's form, with the tokens as `tokens`.
    pub return_details: bool,
    /// Adds the tokens of `inputs` to `details` as `prefill`.
    #[schemars(extend("x-beyond" = true))]
    pub decoder_input_details: bool,
    /// Number of most likely tokens at each position that `details` lists. Requires `details`.
    #[schemars(range(min = 0, max = 20), extend("x-beyond" = true))]
    pub top_n_tokens: Option<u8>,
    /// Repeats `inputs` before the text.
    pub return_full_text: bool,
    /// Number of texts that are sampled; the answer is the most likely one as a whole. Must be less than the graph's `best_of_limit` (20 by default). Above 1,
    /// it cannot be combined with a stream or `seed`, and needs `do_sample` or another sampling field.
    #[schemars(range(min = 1), extend("x-beyond" = true))]
    pub best_of: Option<u32>,
    /// Maximum number of tokens of `inputs`. Longer inputs keep their last tokens. A token that begins every text counts and is kept.
    #[schemars(range(min = 1), extend("x-beyond" = true))]
    pub truncate: Option<u32>,
    /// Pattern that the text matches: an object with a `type`, which is `json`, `json_schema` or `regex`, and a `value`.
    #[schemars(schema_with = "grammar")]
    pub grammar: Option<Grammar>,
}

/// A pattern that a text must match.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum Grammar {
    /// JSON that matches a schema.
    Json(Value),
    /// JSON that matches a schema, given in an object with its name.
    JsonSchema(NamedSchema),
    /// Text that matches a regular expression.
    Regex(String),
}

/// A schema with its name.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct NamedSchema {
    /// JSON schema that the text matches.
    pub schema: Value,
}

/// Fields of completions that are also listed here.
pub const LISTED: &[&str] = &["temperature", "top_p", "top_k", "seed"];

/// Fields of TGI with only one supported value.
pub const GENERATE: &[Plain] = &plain! {
    /// The text is in `inputs`.
    "prompt": Only(&[]),
    /// Only one text is generated.
    "n": Only(&["1"]),
    /// Use `return_full_text`, which repeats `inputs`.
    "echo": Only(&["false"]),
    /// Use `details` and `top_n_tokens` for log probabilities.
    "logprobs": Only(&[]),
    /// Generated texts never have a watermark.
    "watermark": Only(&["false"]),
    /// Name an adapter in `model`: `graph:adapter`.
    "adapter_id": Only(&[]),
};

/// Fields of TEI's `embed`, which makes vectors.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Embed {
    /// Name of the graph that answers. Optional if only one graph embeds.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Texts to embed: a string or an array.
    #[schemars(schema_with = "inputs")]
    pub inputs: Option<Text<String>>,
    /// Scales each vector to length 1; the default is the node's `normalize_embeddings`.
    pub normalize: Option<bool>,
    /// Cuts texts that are too long instead of refusing them; the default is the node's setting.
    pub truncate: Option<bool>,
    /// Side of a text that is cut; the default is `right`, its end.
    #[schemars(extend("enum" = ["left", "Left", "right", "Right"]))]
    pub truncation_direction: Option<String>,
    /// Number of dimensions, as in `embeddings`.
    #[schemars(range(min = 1), extend("x-beyond" = true))]
    pub dimensions: Option<u32>,
}

/// Fields of `embed` that need no reading.
pub const EMBED: &[Plain] = &plain! {
    /// Prompts are not added to texts: write the prompt into the text.
    "prompt_name": Only(&[]),
};

/// Fields of TEI's `similarity`, which compares texts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Similarity {
    /// Name of the graph that answers. Optional if only one graph embeds.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Text to compare, and the texts that it is compared with.
    pub inputs: Option<Sentences>,
    /// Object with `truncate`, which can also be beside `inputs`.
    pub parameters: SimilarityParameters,
    /// Cuts texts that are too long, as in TEI's `embed`.
    pub truncate: Option<bool>,
}

/// A text and the texts that it is compared with.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Sentences {
    /// Text that is compared with all others.
    pub source_sentence: String,
    /// Texts to compare with `source_sentence`.
    #[schemars(length(min = 1, max = MAX_TEXTS - 1))]
    pub sentences: Vec<String>,
}

/// The parameters of a comparison of texts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("additionalProperties" = false))]
pub struct SimilarityParameters {
    /// Cuts texts that are too long, as in TEI's `embed`.
    pub truncate: Option<bool>,
}

/// Fields of TEI's `rerank`, which ranks texts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rerank {
    /// Name of the graph that answers. Optional if only one graph ranks.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Question that the texts should answer.
    pub query: Option<String>,
    /// Texts to rank. A text that is too long beside the query is read in pieces.
    #[schemars(length(min = 1, max = MAX_DOCUMENTS))]
    pub texts: Option<Vec<String>>,
    /// Adds the text of each result.
    pub return_text: bool,
    /// Returns the logarithm of the odds, from -16 to 16, instead of the probability.
    pub raw_scores: bool,
}

/// Fields of `rerank` that need no reading.
pub const RERANK: &[Plain] = &plain! {
    /// Has no effect: a text that is too long is read in pieces.
    "truncate": Idle("boolean"),
    /// Has no effect: a text that is too long is read in pieces.
    "truncation_direction": Idle("string"),
};

/// Fields of TEI's `predict`, which classifies texts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Predict {
    /// Name of the graph that answers. Optional if only one graph ranks.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Text or pair of texts to classify, or several: `["a", "b"]` is one pair, `[["a"], ["b"]]` are two texts.
    #[schemars(schema_with = "predicted")]
    pub inputs: Option<Text<Text<String>>>,
    /// Cuts the end of a text that is too long, or of the second text of a pair. Without it, such texts are refused.
    pub truncate: bool,
    /// Returns logits instead of probabilities.
    pub raw_scores: bool,
}

/// Fields of `predict` that need no reading.
pub const PREDICT: &[Plain] = &plain! {
    /// Texts are cut at their end.
    "truncation_direction": Only(&[r#""right""#, r#""Right""#]),
};

fn predicted(_: &mut SchemaGenerator) -> Schema {
    let text = json!({ "type": "string" });
    let pair = json!({ "type": "array", "items": text, "minItems": 1, "maxItems": 2 });
    let each = json!({ "anyOf": [text, pair] });
    let all = json!({ "type": "array", "items": each, "minItems": 1, "maxItems": MAX_DOCUMENTS, "x-entries": "inputs" });
    json_schema!({
        "x-words": format!("a string, an array of one or two strings, or an array of at most {MAX_DOCUMENTS} such arrays"),
        "x-kind": "a string or an array", "anyOf": [text, all],
    })
}

fn inputs(_: &mut SchemaGenerator) -> Schema {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": text, "minItems": 1, "maxItems": MAX_TEXTS, "x-entries": "texts" });
    json_schema!({
        "x-words": format!("a string, or an array of at most {MAX_TEXTS} strings"),
        "x-kind": "a string or an array of strings", "anyOf": [text, texts],
    })
}

fn grammar(_: &mut SchemaGenerator) -> Schema {
    let form = |kind: &str, value: Value| {
        json!({
            "type": "object", "required": ["type", "value"],
            "properties": { "type": { "const": kind }, "value": value },
        })
    };
    let schema = json!({ "type": ["object", "boolean", "string"], "x-kind": "a JSON schema" });
    let named =
        json!({ "type": "object", "required": ["schema"], "properties": { "schema": schema } });
    json_schema!({
        "x-words": "an object with a `type`, `json`, `json_schema` or `regex`, and a `value`",
        "x-kind": "an object", "x-beyond": true,
        "anyOf": [
            form("json", schema), form("json_schema", named),
            form("regex", json!({ "type": "string", "minLength": 1 })),
        ],
    })
}
