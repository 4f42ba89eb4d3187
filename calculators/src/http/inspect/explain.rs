//! The answer of `?explain=1`.

use std::sync::Arc;

use graphmill_engine::{Error, Result};
use graphmill_llm::{LlmEngine, PromptPreview, SubmitError};
use serde_json::{Map, Value, json};

use crate::payload::{Explained, GenerationParams, ResolvedValue, ValueSource};

/// An explanation that waits for what the engine says about its prompts.
pub(super) struct Explanation {
    model: Arc<str>,
    explained: Arc<Explained>,
    prompts: Vec<Map<String, Value>>,
    previews: Vec<Option<PromptPreview>>,
}

impl Explanation {
    pub(super) fn new(
        model: Arc<str>,
        explained: Arc<Explained>,
        prompts: Vec<Map<String, Value>>,
    ) -> Self {
        Self {
            model,
            explained,
            previews: vec![None; prompts.len()],
            prompts,
        }
    }

    /// Takes in what the engine says about one prompt; true when it has said something about all of
    /// them.
    pub(super) fn add(&mut self, index: usize, preview: PromptPreview) -> bool {
        self.previews[index] = Some(preview);
        self.previews.iter().all(Option::is_some)
    }

    /// The answer.
    pub(super) fn report(self, engine: &LlmEngine) -> Value {
        let context = engine.context_length();
        let params = &self.explained.params;
        let mut cells = 0;
        let prompts: Vec<Value> = self
            .prompts
            .into_iter()
            .zip(&self.previews)
            .map(|(mut prompt, preview)| {
                let preview = preview.unwrap_or_default();
                let most = most_cells(params, context, preview);
                cells += most;
                prompt.insert("cached_tokens".to_owned(), preview.cached_tokens.into());
                prompt.insert(
                    "kv_cells".to_owned(),
                    json!({ "prompt": preview.cells, "most": most }),
                );
                prompt.into()
            })
            .collect();
        let status = engine.status();
        json!({
            "object": "explanation",
            "model": self.model,
            "max_model_len": context,
            "prompts": prompts,
            "kv_cells": {
                "most": cells,
                "used": status.kv_cells_used,
                "total": status.kv_cells_total,
            },
            "queue": {
                "running": status.sequences_running,
                "waiting": status.sequences_waiting,
            },
            "parameters": parameters(&self.explained.values, context),
            "ignored_fields": self.explained.ignored,
        })
    }
}

/// Most cells that all generations of a prompt can take.
fn most_cells(params: &GenerationParams, context: usize, preview: PromptPreview) -> u64 {
    let room = context as u64 - u64::from(preview.prompt_tokens);
    let generated = params
        .max_tokens
        .map_or(room, |most| u64::from(most).min(room));
    (u64::from(preview.cells) + generated) * u64::from(params.n.max(1))
}

/// Each value with its source. A length that nobody limits is limited by the model.
fn parameters(values: &[ResolvedValue], context: usize) -> Map<String, Value> {
    let parameter = |resolved: &ResolvedValue| {
        let (value, source) = match resolved.value {
            Value::Null if resolved.field == "max_tokens" => (json!(context), ValueSource::Model),
            ref value => (value.clone(), resolved.source),
        };
        let parameter = json!({ "value": value, "source": source.as_str() });
        (resolved.field.to_owned(), parameter)
    };
    values.iter().map(parameter).collect()
}

/// Why a prompt could not run, in the words of a refusal.
pub(super) fn refused(error: SubmitError) -> Error {
    let message = error.to_string();
    let refusal = match &error {
        SubmitError::PromptTooLong { .. } | SubmitError::PromptExceedsBatch { .. } => {
            Error::invalid(message).with_code("context_length_exceeded")
        }
        SubmitError::Stopped | SubmitError::Failed(_) => Error::unavailable(message),
        SubmitError::InvalidParameter { field, .. } => Error::invalid(message).with_field(*field),
        _ => Error::invalid(message).with_field("prompt"),
    };
    refusal.with_source(error)
}

/// Checks what only the model knows to be wrong.
pub(in crate::http) fn check(engine: &LlmEngine, params: &GenerationParams) -> Result<()> {
    let size = engine.vocab().n_vocab();
    params.sampling.validate(size).map_err(refused)?;
    engine.check_priority(params.priority).map_err(refused)
}
