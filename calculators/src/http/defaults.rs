//! Defaults for fields that a request does not set: from the graph, then from the model's
//! `generation_config.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::llm::GenerationConfig;

/// Values that a graph sets for requests that leave them open.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OpenAIRequestOptions {
    /// Temperature of sampling; 1 when not set here.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f32>,
    /// Share of the probability that the likeliest tokens kept must reach; 1 (all) when not set
    /// here.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_p: Option<f32>,
    /// Number of likeliest tokens kept; -1 (all) when not set here.
    #[schemars(range(min = -1))]
    pub top_k: Option<i32>,
    /// Least probability of a kept token, relative to the likeliest; 0 when not set here.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_p: Option<f32>,
    /// Penalty of tokens that are there already; 1 (none) when not set here.
    #[schemars(range(min = 0.01, max = 100.0))]
    pub repetition_penalty: Option<f32>,
    /// Most tokens of an answer; up to the end of the context when not set here.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
}

/// The defaults of one request node: fields, without those that it leaves open, too.
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

    /// The fields that the graph sets, and those that the model sets alone.
    pub(super) fn fields(&self) -> Map<String, Value> {
        let mut fields = self.model.clone();
        fields.extend(self.graph.clone());
        fields
    }
}
