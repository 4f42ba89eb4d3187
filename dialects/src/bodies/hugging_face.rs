//! Fields of the servers of Hugging Face: Text Generation Inference (TGI), whose body LightLLM has,
//! too, and Text Embeddings Inference (TEI).

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Text, shapes};
use crate::{
    limits::{MAX_DOCUMENTS, MAX_TEXTS},
    schema::Plain,
};

/// Fields of TGI's `generate` that are beside each other.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Generate {
    /// Beginning that the text goes on from, as in `prompt` of completions.
    #[schemars(length(min = 1))]
    pub inputs: Option<String>,
    /// Holds the fields below and any other of completions; they can be beside `inputs`, too, but not in both places.
    pub parameters: Map<String, Value>,
    /// Form of the answer. Where it is left out, `generate_form` of the graph in `config.json` says it.
    #[schemars(extend("enum" = ["tgi", "lightllm"]))]
    pub generate_form: Option<String>,
}

/// Fields of TGI's `generate` that can be in `parameters`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Parameters {
    /// Maximum number of tokens of the text; 100 where it is left out.
    #[schemars(schema_with = "shapes::limit::<1>")]
    pub max_new_tokens: Option<i64>,
    /// Draws tokens. Without it, and without `temperature`, `top_k`, `top_p` or `typical_p`, each is the likeliest.
    pub do_sample: bool,
    /// Adds `details`: why the text ended, and its tokens with their log probabilities.
    pub details: bool,
    /// The same in the form of LightLLM, which has the tokens as `tokens`.
    pub return_details: bool,
    /// Lists the tokens of `inputs` as `prefill` of `details`.
    #[schemars(extend("x-beyond" = true))]
    pub decoder_input_details: bool,
    /// With `details`, tells that many likeliest tokens at each place.
    #[schemars(range(min = 0, max = 20), extend("x-beyond" = true))]
    pub top_n_tokens: Option<u8>,
    /// Repeats `inputs` before the text.
    pub return_full_text: bool,
    /// Texts that are drawn, of which the likeliest as a whole is the answer. Below the graph's `best_of_limit`; above 1 not in a stream, not with `seed`, and only with `do_sample` or another field of sampling.
    #[schemars(range(min = 1), extend("x-beyond" = true))]
    pub best_of: Option<u32>,
    /// Maximum number of tokens of `inputs`, of which the last are read; a token that begins every text counts and is kept.
    #[schemars(range(min = 1), extend("x-beyond" = true))]
    pub truncate: Option<u32>,
    /// Pattern that the text matches: a `type`, which is `json`, `json_schema` or `regex`, and a `value`.
    #[schemars(schema_with = "grammar")]
    pub grammar: Option<Grammar>,
}

/// A pattern that a text has to match.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum Grammar {
    /// JSON that fits a schema.
    Json(Value),
    /// JSON that fits a schema, which is in an object with its name.
    JsonSchema(NamedSchema),
    /// What a regular expression says.
    Regex(String),
}

/// A schema with its name.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct NamedSchema {
    /// The schema.
    pub schema: Value,
}

/// Fields of completions that are listed here, too.
pub const LISTED: &[&str] = &["temperature", "top_p", "top_k", "seed"];

/// Fields of TGI that ask for what is done anyway, or for what cannot be done.
pub const GENERATE: &[Plain] = &plain! {
    /// The text is in `inputs`.
    "prompt": Only(&[]),
    /// There is one text.
    "n": Only(&["1"]),
    /// Use `return_full_text`.
    "echo": Only(&["false"]),
    /// Use `details` and `top_n_tokens`.
    "logprobs": Only(&[]),
    /// Texts have no watermark.
    "watermark": Only(&["false"]),
    /// `model` names an adapter: `graph:adapter`.
    "adapter_id": Only(&[]),
};

/// The field that says if the answer is a stream, where the path says it.
pub(super) fn stream(only: &'static [&'static str]) -> [Plain; 1] {
    plain! {
        /// The path says whether the answer is a stream.
        "stream": Only(only),
    }
}

/// Fields of TEI's `embed`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Embed {
    /// The name of the graph that answers; it may be left out where there is one that embeds.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// The texts.
    #[schemars(schema_with = "inputs")]
    pub inputs: Option<Text<String>>,
    /// Makes each vector's length 1; as the node has it (`normalize_embeddings`) when left out.
    pub normalize: Option<bool>,
    /// Cuts texts that are too long, or refuses them; as the node has it when left out.
    pub truncate: Option<bool>,
    /// The side of a text at which it is cut; `right`, its end, when left out.
    #[schemars(extend("enum" = ["left", "Left", "right", "Right"]))]
    pub truncation_direction: Option<String>,
    /// As `dimensions` of `embeddings`.
    #[schemars(range(min = 1), extend("x-beyond" = true))]
    pub dimensions: Option<u32>,
}

/// The others of `embed`.
pub const EMBED: &[Plain] = &plain! {
    /// Texts are read as they are: write the prompt before them.
    "prompt_name": Only(&[]),
};

/// Fields of TEI's `similarity`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Similarity {
    /// The name of the graph that answers; it may be left out where there is one that embeds.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// The text to compare, and those that it is compared with.
    pub inputs: Option<Sentences>,
    /// Holds `truncate`, which can be beside `inputs`, too.
    pub parameters: SimilarityParameters,
    /// As `truncate` of TEI's `embed`.
    pub truncate: Option<bool>,
}

/// A text, and those that it is compared with.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Sentences {
    /// The text.
    pub source_sentence: String,
    /// The others.
    #[schemars(length(min = 1, max = MAX_TEXTS - 1))]
    pub sentences: Vec<String>,
}

/// Parameters of a comparison.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("additionalProperties" = false))]
pub struct SimilarityParameters {
    /// As `truncate` of TEI's `embed`.
    pub truncate: Option<bool>,
}

/// Fields of TEI's `rerank`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rerank {
    /// The name of the graph that answers; it may be left out where there is one that ranks.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Question that the texts should answer.
    pub query: Option<String>,
    /// The texts. One that is too long for the model beside the query is read in pieces.
    #[schemars(length(min = 1, max = MAX_DOCUMENTS))]
    pub texts: Option<Vec<String>>,
    /// Adds each result's text.
    pub return_text: bool,
    /// Tells the logarithms of the odds in the place of probabilities, from -16 to 16.
    pub raw_scores: bool,
}

/// The others of `rerank`.
pub const RERANK: &[Plain] = &plain! {
    /// Without effect: a text that is too long is read in pieces.
    "truncate": Idle("boolean"),
    /// Without effect: a text that is too long is read in pieces.
    "truncation_direction": Idle("string"),
};

/// Fields of TEI's `predict`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Predict {
    /// The name of the graph that answers; it may be left out where there is one that ranks.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// A text, or a pair of texts; or a list of lists, each of a text or a pair.
    #[schemars(schema_with = "predicted")]
    pub inputs: Option<Text<Text<String>>>,
    /// Cuts what is too long at its end, of a pair the second text. Without it, that is refused.
    pub truncate: bool,
    /// Tells logits in the place of probabilities.
    pub raw_scores: bool,
}

/// The others of `predict`.
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
