//! Fields of Triton's `generate`, beside which those of completions can be used. Those that are not
//! the text and its name can be in `parameters`, too.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Text, shapes};
use crate::{
    limits::{MAX_STOP_CHARS, MAX_STOPS},
    schema::Plain,
};

/// Fields of `generate` that are beside each other.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Generate {
    /// Beginning that the text goes on from, as in `prompt` of completions.
    #[schemars(length(min = 1))]
    pub text_input: Option<String>,
    /// Is repeated in the answer.
    pub id: Option<String>,
    /// Holds the fields below and any other of completions; they can be beside `text_input`, too, but not in both places. Refused are `prompt`, `logprobs`, `echo`, and more than one choice.
    pub parameters: Map<String, Value>,
}

/// Fields of `generate` that can be in `parameters`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Parameters {
    /// Maximum number of tokens of the text; 20 where it is left out.
    #[schemars(schema_with = "shapes::limit::<1>")]
    pub max_tokens: Option<i64>,
    /// The same as `stop`, as models of TensorRT-LLM have it.
    #[schemars(schema_with = "stop_words")]
    pub stop_words: Option<Text<String>>,
    /// Has the answer say in `details.finish_reason` why the text ended: `length`, `eos_token` or `stop_sequence`.
    pub details: bool,
}

/// Fields of the path, which the server puts in.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PathFields {
    /// The graph.
    pub model_name: Option<String>,
    /// Its version.
    pub model_version: Option<String>,
}

/// Fields of completions that are listed here, too.
pub const LISTED: &[&str] = &["temperature", "top_p", "top_k", "seed"];

/// The others; `stream` says if the answer is one.
pub(super) fn plain(stream: &'static [&'static str]) -> [Plain; 7] {
    plain! {
        /// The text is in `text_input`.
        "prompt": Only(&[]),
        /// There is one text.
        "n": Only(&["1"]),
        /// There is one text.
        "best_of": Only(&["1"]),
        /// The answer is the text alone.
        "echo": Only(&["false"]),
        /// The answer is the text alone.
        "logprobs": Only(&[]),
        /// No words are kept from coming.
        "bad_words": Only(&[r#""""#, "[]"]),
        /// The path says whether the answer is a stream.
        "stream": Only(stream),
    }
}

/// Texts that end an answer; an empty one stops nowhere.
fn stop_words(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-words": "a string or an array of strings", "x-kind": "a string or an array of strings",
        "anyOf": [
            { "type": "string", "maxLength": MAX_STOP_CHARS },
            { "type": "array", "items": shapes::short_text(MAX_STOP_CHARS), "maxItems": MAX_STOPS },
        ],
    })
}
