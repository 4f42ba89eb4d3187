//! Defaults for fields that a request does not set: from the graph, then from the model's
//! `generation_config.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::llm::GenerationConfig;

/// What a graph sets for requests that leave it open.
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

/// The defaults of one request node.
#[derive(Clone, Debug, Default)]
pub(super) struct Defaults {
    pub(super) graph: OpenAIRequestOptions,
    pub(super) model: OpenAIRequestOptions,
    /// Those of the graph, and where it has none, those of the model.
    pub(super) values: OpenAIRequestOptions,
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
        Self {
            values: OpenAIRequestOptions {
                temperature: graph.temperature.or(model.temperature),
                top_p: graph.top_p.or(model.top_p),
                top_k: graph.top_k.or(model.top_k),
                min_p: graph.min_p.or(model.min_p),
                repetition_penalty: graph.repetition_penalty.or(model.repetition_penalty),
                max_tokens: graph.max_tokens.or(model.max_tokens),
            },
            graph: graph.clone(),
            model,
        }
    }
    /// Values of fields that requests leave open.
    pub(super) fn fields(&self) -> Map<String, Value> {
        match json!(self.values) {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}
