//! Defaults for fields that a request does not set: from the graph, then from the model's
//! `generation_config.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::llm::GenerationConfig;

/// Options of an `OpenAIRequestCalculator` node: values for requests that do not set them.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OpenAIRequestOptions {
    /// Temperature of sampling. Default: that of the model, or 1.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f32>,
    /// Probability that the likeliest tokens must reach together; the others are dropped. Default:
    /// that of the model, or 1 (keeps all).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_p: Option<f32>,
    /// Number of the likeliest tokens that are kept. Default: that of the model, or -1 (keeps all).
    #[schemars(range(min = -1))]
    pub top_k: Option<i32>,
    /// Minimum probability of a kept token, relative to the likeliest one. Default: that of the
    /// model, or 0.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_p: Option<f32>,
    /// Penalty of tokens that have already occurred. Default: that of the model, or 1 (no penalty).
    #[schemars(range(min = 0.01, max = 100.0))]
    pub repetition_penalty: Option<f32>,
    /// Maximum number of tokens of an answer. Default: that of the model, or the rest of the
    /// context.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
}

/// Defaults of one request node, from its graph and its model. Fields without a default are left
/// out.
#[derive(Clone, Debug, Default)]
pub(super) struct Defaults {
    pub(super) graph: Map<String, Value>,
    pub(super) model: Map<String, Value>,
}

impl Defaults {
    pub(super) fn new(graph: &OpenAIRequestOptions, model: &GenerationConfig) -> Self {
        let model = OpenAIRequestOptions {
            temperature: model.temperature,
            top_p: model.top_p,
            top_k: model.top_k,
            min_p: model.min_p,
            repetition_penalty: model.repetition_penalty,
            max_tokens: model.max_new_tokens,
        };
        let fields = |options: &OpenAIRequestOptions| match json!(options) {
            Value::Object(fields) => fields.into_iter().filter(|it| !it.1.is_null()).collect(),
            _ => Map::new(),
        };
        Self {
            graph: fields(graph),
            model: fields(&model),
        }
    }

    /// Returns the fields that the graph sets, and those that only the model sets.
    pub(super) fn fields(&self) -> Map<String, Value> {
        let mut fields = self.model.clone();
        fields.extend(self.graph.clone());
        fields
    }
}
