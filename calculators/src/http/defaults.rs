//! What is used where a request says nothing: what the graph says, and behind it what the model's makers say.

use super::request::OpenAIRequestOptions;
use crate::llm::GenerationConfig;

/// The defaults of one request node.
#[derive(Clone, Debug, Default)]
pub(super) struct Defaults {
    pub(super) graph: OpenAIRequestOptions,
    pub(super) model: OpenAIRequestOptions,
    /// Of both, those that count.
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
}
