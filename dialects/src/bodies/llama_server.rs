//! Fields of llama-server's own endpoints. Beside those that generate, the fields of completions can
//! be used.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{ReadApart, shapes};
use crate::{limits::MAX_PROMPTS, schema::Plain};

/// Fields of completions that are listed here, too.
pub const LISTED: &[&str] = &["temperature", "top_p", "top_k", "min_p", "seed"];

/// Fields of completions that are ignored like any other unknown one.
pub const WITHOUT: &[&str] = &["samplers", "stream_options"];

/// Fields of all requests for text.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Generation {
    /// Maximum number of tokens of a text; -1, as without it, is no limit but the graph's. With 0, the prompt is computed, for requests that begin with it.
    #[schemars(schema_with = "shapes::limit::<0>")]
    pub n_predict: Option<i64>,
    /// Tells the log probability of each token, under the model itself, with those of that many likeliest tokens at each place.
    #[schemars(range(min = 0, max = 20))]
    pub n_probs: u8,
    /// Tells the tokens of the text. Streams do in any case.
    pub return_tokens: bool,
    /// Fields that the answer has, instead of all. `timings/prompt_ms` is a field of a field, and has this name.
    #[schemars(length(max = 64), inner(length(min = 1, max = 128)))]
    pub response_fields: Vec<String>,
    /// Grammar in GBNF or Lark that the text follows; none if it is empty.
    pub grammar: String,
}

/// The others of that kind.
pub const GENERATION: &[Plain] = &plain! {
    /// Another name for `n_predict`, which goes before it.
    "max_tokens": Alias("n_predict"),
    /// The same as `n`.
    "n_cmpl": Alias("n"),
    /// Use `n_probs`.
    "logprobs": Only(&[]),
    /// Answers do not repeat the prompt.
    "echo": Only(&["false"]),
    /// Use `/infill`.
    "suffix": Only(&[r#""""#]),
    /// Probabilities are those of the model, before sampling.
    "post_sampling_probs": Only(&["false"]),
};

/// The field of adapters.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Adapters {
    /// Adapters by their numbers in `GET /lora-adapters`, each with its `scale`. At most four have another than 0. `model` can name one instead, at the scale of the graph: `graph:adapter`.
    #[schemars(length(max = 64))]
    pub lora: Vec<Adapter>,
}

/// An adapter and its scale.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Adapter {
    /// Its number.
    pub id: u32,
    /// Its scale.
    pub scale: f32,
}

/// Fields of `/completion`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Completion {
    /// Beginnings that the text goes on from. Spellings of special tokens are these tokens.
    #[schemars(schema_with = "shapes::prompts")]
    pub prompt: ReadApart,
}

/// Fields of `/infill`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Infill {
    /// Text before the gap.
    pub input_prefix: Option<String>,
    /// Text behind it.
    pub input_suffix: Option<String>,
    /// Other texts, such as files, each with a `text` and perhaps a `filename`.
    #[schemars(length(max = MAX_PROMPTS))]
    pub input_extra: Vec<Extra>,
    /// More of the text before the gap, such as the beginning of the line.
    pub prompt: String,
}

/// A text beside the one with the gap.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Extra {
    /// The text.
    pub text: String,
    /// Its name.
    pub filename: Option<String>,
}

/// Fields of `/embedding`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Embedding {
    /// The name of the graph that answers; it may be left out where there is one that embeds.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// The texts, as `input` of `embeddings`.
    #[schemars(schema_with = "shapes::texts")]
    pub content: ReadApart,
    /// Another name for `content`.
    #[schemars(schema_with = "shapes::texts")]
    pub input: ReadApart,
    /// 2 makes each vector's length 1, and -1 leaves it as the model has it; as the node has it (`normalize_embeddings`) when left out.
    #[schemars(extend("enum" = [-1, 2]))]
    pub embd_normalize: Option<i64>,
    /// As `dimensions` of `embeddings`.
    #[schemars(range(min = 1), extend("x-beyond" = true))]
    pub dimensions: Option<u32>,
}

/// The others of `/embedding`.
pub const EMBEDDING: &[Plain] = &plain! {
    /// Vectors are numbers.
    "encoding_format": Only(&[r#""float""#]),
};
