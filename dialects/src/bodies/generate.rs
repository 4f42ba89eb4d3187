//! Fields of Triton's `generate`. Those from `max_tokens` on are in `parameters` or beside
//! `text_input`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use super::shapes;
use crate::{
    limits::{MAX_STOP_CHARS, MAX_STOPS},
    schema::Plain::{self, Only},
};

/// Fields of `generate`.
#[derive(Debug, JsonSchema)]
pub struct Generate {
    /// Beginning that the text goes on from, as in `prompt` of completions.
    #[schemars(length(min = 1))]
    pub text_input: String,
    /// Is repeated in the answer.
    pub id: String,
    /// Holds the fields below and any other of completions; they can be beside `text_input`, too, but not in both places. Refused are `prompt`, `logprobs`, `echo`, and more than one choice.
    pub parameters: Map<String, Value>,
    /// Maximum number of tokens of the text; 20 where it is left out.
    #[schemars(schema_with = "shapes::limit::<1>")]
    pub max_tokens: (),
    /// As in completions.
    #[schemars(range(min = 0, max = 2))]
    pub temperature: f32,
    /// As in completions.
    #[schemars(range(min = 0, max = 1))]
    pub top_p: f32,
    /// As in completions.
    #[schemars(range(min = -1, max = i32::MAX))]
    pub top_k: i32,
    /// As in completions.
    #[schemars(range(min = 0, max = i64::MAX))]
    pub seed: u64,
    /// The same as `stop`, as models of TensorRT-LLM have it.
    #[schemars(schema_with = "stop_words")]
    pub stop_words: (),
    /// Has the answer say in `details.finish_reason` why the text ended: `length`, `eos_token` or `stop_sequence`.
    pub details: bool,
}

const BAD_WORDS: Plain = Only(
    "bad_words",
    &[r#""""#, "[]"],
    "No words are kept from coming.",
);
const STREAM: &str = "The path says whether the answer is a stream.";

/// The others of an answer in one piece.
pub const WHOLE: &[Plain] = &[BAD_WORDS, Only("stream", &["false"], STREAM)];
/// The others of a stream.
pub const STREAMED: &[Plain] = &[BAD_WORDS, Only("stream", &["true"], STREAM)];

/// An empty one stops nowhere.
fn stop_words(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-own": true, "x-words": "a string or an array of strings",
        "anyOf": [
            { "type": "string", "maxLength": MAX_STOP_CHARS },
            { "type": "array", "items": shapes::short_text(MAX_STOP_CHARS), "maxItems": MAX_STOPS },
        ],
    })
}
