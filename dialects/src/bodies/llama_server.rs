//! Fields of llama-server's own endpoints. Endpoints that generate text also take the fields of completions.

use graphmill_llm::AdapterSpec;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ReadApart, shapes};
use crate::{limits::MAX_PROMPTS, schema::Plain};

/// Fields of completions that the documentation of these endpoints repeats.
pub const LISTED: &[&str] = &["temperature", "top_p", "top_k", "min_p", "seed"];

/// Fields of completions that are ignored like unknown fields.
pub const WITHOUT: &[&str] = &["samplers", "stream_options"];

/// Fields of all requests for text.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Generation {
    /// Maximum number of tokens of a text. With -1, the default, only the graph's limit applies. With 0, no text is generated: the prompt is computed for later
    /// requests that begin with it.
    #[schemars(schema_with = "shapes::limit::<0>")]
    pub n_predict: Option<i64>,
    /// Returns the log probability of each token under the model itself, and those of this many most likely tokens at each position.
    #[schemars(range(min = 0, max = 20))]
    pub n_probs: u8,
    /// Returns the tokens of the text. Streams always do.
    pub return_tokens: bool,
    /// Fields to include in the answer; the default is all. `timings/prompt_ms` selects the field `prompt_ms` of `timings`; its name in the answer is
    /// `timings/prompt_ms`.
    #[schemars(length(max = 64), inner(length(min = 1, max = 128)))]
    pub response_fields: Vec<String>,
    /// Grammar in GBNF or Lark that the text follows; none if empty.
    pub grammar: String,
}

/// Generation fields that need no reading.
pub const GENERATION: &[Plain] = &plain! {
    /// Alternative name of `n_predict`, which wins if both are given.
    "max_tokens": Alias("n_predict"),
    /// Alternative name of `n`.
    "n_cmpl": Alias("n"),
    /// Use `n_probs` for log probabilities.
    "logprobs": Only(&[]),
    /// Answers do not repeat the prompt.
    "echo": Only(&["false"]),
    /// Use `/infill` for text with a gap.
    "suffix": Only(&[r#""""#]),
    /// Probabilities are those of the model, before sampling.
    "post_sampling_probs": Only(&["false"]),
};

/// The field that selects adapters for one request.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Adapters {
    /// Adapters by their numbers in `GET /lora-adapters`, each with its `scale`, from -10 to 10. At most four adapters may have a scale other than 0.
    /// `model` can name one instead, at the scale of the graph: `graph:adapter`.
    #[schemars(length(max = 64), extend("x-beyond" = true))]
    pub lora: Vec<Adapter>,
}

/// An adapter and its scale.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Adapter {
    /// Number in `GET /lora-adapters`.
    pub id: u32,
    /// Strength of the adapter; 0 leaves it out.
    #[schemars(range(min = -AdapterSpec::MAX_SCALE, max = AdapterSpec::MAX_SCALE))]
    pub scale: f32,
}

/// Fields of `/completion`, which continues prompts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Completion {
    /// Texts to continue. The spelling of a special token is read as the token.
    #[schemars(schema_with = "shapes::prompts")]
    pub prompt: ReadApart,
}

/// Fields of `/infill`, which fills a gap in a text.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Infill {
    /// Text before the gap. The text of `prompt` follows it.
    pub input_prefix: Option<String>,
    /// Text after the gap to fill.
    pub input_suffix: Option<String>,
    /// Other texts, such as files, each with a `text` and an optional `filename`.
    #[schemars(length(max = MAX_PROMPTS))]
    pub input_extra: Vec<Extra>,
    /// Further text before the gap, such as the start of the line.
    pub prompt: String,
}

/// Another text, which the model reads as context.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Extra {
    /// The text itself, such as the contents of a file.
    pub text: String,
    /// File name of the text.
    pub filename: Option<String>,
}

/// Fields of `/embedding`, which computes vectors.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Embedding {
    /// Name of the graph that answers. Optional if only one graph embeds.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Texts to embed, as in `input` of `embeddings`.
    #[schemars(schema_with = "shapes::texts")]
    pub content: ReadApart,
    /// Alternative name of `content`.
    #[schemars(schema_with = "shapes::texts")]
    pub input: ReadApart,
    /// Scaling of vectors: 2 scales each to length 1, -1 leaves it unchanged; the default is the node's `normalize_embeddings`.
    #[schemars(extend("enum" = [-1, 2]))]
    pub embd_normalize: Option<i64>,
    /// Number of dimensions, as in `embeddings`.
    #[schemars(range(min = 1), extend("x-beyond" = true))]
    pub dimensions: Option<u32>,
}

/// Fields of `/embedding` that need no reading.
pub const EMBEDDING: &[Plain] = &plain! {
    /// Vectors are returned as numbers.
    "encoding_format": Only(&[r#""float""#]),
};
