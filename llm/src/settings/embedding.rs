//! Spec of an embedding engine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[cfg(feature = "llama")]
use crate::settings::LlmEngineSpec;
use crate::settings::{
    Device, MAX_RESTARTS, PluginConfig, Pooling, STEP_TIMEOUT_MS, SpecError, check_least,
};

/// Everything that determines how a model that embeds or ranks is loaded and batched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingSpec {
    /// The model file; see [`resolve_model_path`](crate::resolve_model_path).
    pub model: PathBuf,
    /// Purpose of the model: to embed or to rank.
    pub task: EmbeddingTask,
    /// Maximum number of tokens in one step, all texts together; a longer text is computed alone.
    pub max_num_batched_tokens: u32,
    /// Maximum number of tokens of a text; `None` takes the model's trained context, up to
    /// [`Self::USUAL_CONTEXT`].
    pub max_context: Option<u32>,
    /// Device that computes the model.
    pub device: Device,
    /// Maximum number of requests at the same time; more are refused.
    pub max_waiting: u32,
    /// Time limit of a step, as in
    /// [`LlmEngineSpec::step_timeout_ms`](crate::LlmEngineSpec::step_timeout_ms).
    pub step_timeout_ms: u32,
    /// Limit on restarts, as in
    /// [`LlmEngineSpec::max_engine_restarts`](crate::LlmEngineSpec::max_engine_restarts).
    pub max_engine_restarts: u32,
    /// Options of the backend. Those of KV caches and drafts have no effect here.
    pub plugin_config: PluginConfig,
}

impl EmbeddingSpec {
    /// Default limit on the tokens of a text. The memory for a step grows with its square.
    pub const USUAL_CONTEXT: u32 = 8192;

    /// Creates a spec with the defaults for a model file.
    pub fn new(model: impl Into<PathBuf>, task: EmbeddingTask) -> Self {
        Self {
            model: model.into(),
            task,
            max_num_batched_tokens: 512,
            max_context: None,
            device: Device::Auto,
            max_waiting: 1024,
            step_timeout_ms: STEP_TIMEOUT_MS,
            max_engine_restarts: MAX_RESTARTS,
            plugin_config: PluginConfig::default(),
        }
    }

    /// Checks values that are wrong for every model and machine.
    ///
    /// # Errors
    /// [`SpecError::OutOfRange`] with the first field that is wrong.
    pub fn validate(&self) -> Result<(), SpecError> {
        let refused = |field, message: &str| Err(SpecError::out_of_range(field, message));
        check_least("max_num_batched_tokens", self.max_num_batched_tokens, 1)?;
        check_least("max_waiting", self.max_waiting, 1)?;
        if self.max_context.is_some_and(|context| context < 2) {
            return refused("max_context", "must be at least 2");
        }
        if let Some(knob) = self.plugin_config.drafter() {
            return refused(knob, "is for models that generate");
        }
        if self.plugin_config.ubatch.is_some() {
            return refused(
                "ubatch",
                "cannot be set: a text is computed at once, so it follows from max_num_batched_tokens and max_context",
            );
        }
        self.plugin_config.validate(self.device)
    }

    /// Spec for loading the weights.
    #[cfg(feature = "llama")]
    pub(crate) fn weights(&self) -> LlmEngineSpec {
        LlmEngineSpec {
            device: self.device,
            plugin_config: self.plugin_config.clone(),
            ..LlmEngineSpec::new(self.model.clone())
        }
    }
}

/// Purpose of a model that embeds or ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingTask {
    /// A vector for a text. Without a pooling, that of the file is used.
    Embed(Option<Pooling>),
    /// A score for a query and a document, or a number for each class of a text.
    Rank,
}
