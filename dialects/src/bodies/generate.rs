//! Fields of Triton's `generate`. Fields of completions can be used, too. All except the text and its id can also be in `parameters`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Text, shapes};
use crate::{
    limits::{MAX_STOP_CHARS, MAX_STOPS},
    schema::Plain,
};

/// Fields of `generate` at the top level of the body.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Generate {
    /// Text to continue, as in `prompt` of completions.
    #[schemars(length(min = 1))]
    pub text_input: Option<String>,
    /// Identifier that the answer repeats.
    pub id: Option<String>,
    /// Object with the fields below and any other of completions. These can also be beside `text_input`, but not in both places. `prompt`, `logprobs`, `echo`
    /// and more than one choice are refused.
    pub parameters: Map<String, Value>,
}

/// Fields of `generate` that can be in `parameters`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Parameters {
    /// Maximum number of tokens of the text; the default is 20.
    #[schemars(schema_with = "shapes::limit::<1>")]
    pub max_tokens: Option<i64>,
    /// Alternative name of `stop` in TensorRT-LLM's models.
    #[schemars(schema_with = "stop_words")]
    pub stop_words: Option<Text<String>>,
    /// Adds `details.finish_reason` to the answer, the reason why the text ended: `length`, `eos_token` or `stop_sequence`.
    pub details: bool,
}

/// Fields from the URL's path, which the server adds.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PathFields {
    /// Name of the graph in the path.
    pub model_name: Option<String>,
    /// Version of the graph in the path, if there is one.
    pub model_version: Option<String>,
}

/// Fields of completions that are also listed here.
pub const LISTED: &[&str] = &["temperature", "top_p", "top_k", "seed"];

/// Fields that need no reading.
pub(super) const PLAIN: &[Plain] = &plain! {
    /// The text is in `text_input`.
    "prompt": Only(&[]),
    /// Only one text is generated.
    "n": Only(&["1"]),
    /// Only one text is generated.
    "best_of": Only(&["1"]),
    /// The answer contains only the generated text.
    "echo": Only(&["false"]),
    /// The answer contains only the generated text.
    "logprobs": Only(&[]),
    /// Words cannot be forbidden here.
    "bad_words": Only(&[r#""""#, "[]"]),
};

/// Makes the schema of texts that end an answer. An empty one has no effect.
fn stop_words(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-words": "a string or an array of strings", "x-kind": "a string or an array of strings",
        "anyOf": [
            { "type": "string", "maxLength": MAX_STOP_CHARS },
            { "type": "array", "items": shapes::short_text(MAX_STOP_CHARS), "maxItems": MAX_STOPS },
        ],
    })
}
