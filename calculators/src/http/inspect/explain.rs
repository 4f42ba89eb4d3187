//! The answer of `?explain=1`.

use std::sync::Arc;

use graphmill_engine::Result;
use graphmill_llm::{LlmEngine, PromptPreview};
use serde_json::{Value, json};

use crate::llm::refused;
use crate::payload::{EffectiveValues, GenerationParams};

/// An explanation that waits for the engine's previews of its prompts.
pub(super) struct Explanation {
    pub(super) model: Arc<str>,
    pub(super) effective: Arc<EffectiveValues>,
    pub(super) prompts: Vec<Value>,
    /// Number of prompts without a preview.
    pub(super) awaited: usize,
    /// Maximum number of cells that the other prompts can take.
    pub(super) cells: u64,
}

impl Explanation {
    /// Adds the engine's preview of one prompt. Returns true when all prompts have one.
    pub(super) fn add(&mut self, index: usize, preview: PromptPreview, engine: &LlmEngine) -> bool {
        let params = &self.effective.params;
        let room = engine.context_length() as u64 - u64::from(preview.prompt_tokens);
        let generated = params.max_tokens.map_or(room, |most| room.min(most.into()));
        // Each generation of the prompt can take as many.
        let most = (u64::from(preview.cells) + generated) * u64::from(params.n.max(1));
        let prompt = &mut self.prompts[index];
        prompt["cached_tokens"] = preview.cached_tokens.into();
        prompt["kv_cells"] = json!({ "prompt": preview.cells, "most": most });
        self.cells += most;
        self.awaited -= 1;
        self.awaited == 0
    }

    /// Returns the answer, once all prompts have a preview.
    pub(super) fn report(self, engine: &LlmEngine) -> Value {
        let context = engine.context_length();
        let mut parameters = self.effective.values.clone();
        if self.effective.params.max_tokens.is_none() {
            // The model's context is the only limit of the length.
            let limit = json!({ "value": context, "source": "model" });
            parameters.insert("max_tokens".to_owned(), limit);
        }
        let status = engine.status();
        json!({
            "object": "explanation",
            "model": self.model,
            "max_model_len": context,
            "prompts": self.prompts,
            "kv_cells": {
                "most": self.cells,
                "used": status.kv_cells_used,
                "total": status.kv_cells_total,
            },
            "queue": {
                "running": status.sequences_running,
                "waiting": status.sequences_waiting,
            },
            "parameters": parameters,
            "ignored_fields": self.effective.ignored,
        })
    }
}

/// Checks parameters that depend on the model.
pub(in crate::http) fn check(engine: &LlmEngine, params: &GenerationParams) -> Result<()> {
    let size = engine.vocab().n_vocab();
    params.sampling.validate(size).map_err(refused)?;
    engine.check_priority(params.priority).map_err(refused)
}
