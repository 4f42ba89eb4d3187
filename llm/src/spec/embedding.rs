//! What an embedding engine is loaded from.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[cfg(feature = "llama")]
use crate::spec::LlmEngineSpec;
use crate::spec::{Device, MAX_RESTARTS, PluginConfig, STEP_TIMEOUT_MS, SpecError};

/// Everything that decides how a model that embeds or ranks is loaded and batched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingSpec {
    /// The model file; see [`resolve_model_path`](crate::resolve_model_path).
    pub model: PathBuf,
    /// What the model is for.
    pub task: EmbeddingTask,
    /// Tokens of one step, all texts together; a longer text is computed alone.
    pub max_num_batched_tokens: u32,
    /// Most tokens of a text; `None` takes what the model was trained for, and at most
    /// [`Self::USUAL_CONTEXT`].
    pub max_context: Option<u32>,
    /// Where the model computes.
    pub device: Device,
    /// Most requests at the same time; more are refused.
    pub max_waiting: u32,
    /// As [`LlmEngineSpec::step_timeout_ms`](crate::LlmEngineSpec::step_timeout_ms).
    pub step_timeout_ms: u32,
    /// As [`LlmEngineSpec::max_engine_restarts`](crate::LlmEngineSpec::max_engine_restarts).
    pub max_engine_restarts: u32,
    /// Knobs of the backend. Those of KV caches and drafts have no meaning here.
    pub plugin_config: PluginConfig,
}

impl EmbeddingSpec {
    /// Most tokens of a text, unless the spec says otherwise: memory for a step grows with the
    /// square of it.
    pub const USUAL_CONTEXT: u32 = 8192;

    /// The defaults for a model file.
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

    /// Checks the values that no model or machine could make right.
    ///
    /// # Errors
    /// [`SpecError::OutOfRange`] names the first field that is wrong.
    pub fn validate(&self) -> Result<(), SpecError> {
        let refused = |field, message: &str| {
            let message = message.to_owned();
            Err(SpecError::OutOfRange { field, message })
        };
        if self.max_num_batched_tokens == 0 {
            return refused("max_num_batched_tokens", "must be at least 1, not 0");
        }
        if self.max_waiting == 0 {
            return refused("max_waiting", "must be at least 1, not 0");
        }
        if self.max_context.is_some_and(|context| context < 2) {
            return refused("max_context", "must be at least 2");
        }
        for (knob, given) in [
            ("prompt_lookup", self.plugin_config.prompt_lookup),
            ("mtp", self.plugin_config.mtp),
        ] {
            if given {
                return refused(knob, "is for models that generate");
            }
        }
        if self.plugin_config.ubatch.is_some() {
            return refused(
                "ubatch",
                "cannot be set: a text is computed at once, so it follows from max_num_batched_tokens and max_context",
            );
        }
        self.plugin_config.validate(self.device)
    }

    /// What the weights are loaded from.
    #[cfg(feature = "llama")]
    pub(crate) fn weights(&self) -> LlmEngineSpec {
        LlmEngineSpec {
            device: self.device,
            plugin_config: self.plugin_config.clone(),
            ..LlmEngineSpec::new(self.model.clone())
        }
    }
}

/// What a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingTask {
    /// A vector for a text. The pooling is the file's own where none is given.
    Embed(Option<Pooling>),
    /// A score for a query and a document, or numbers of classes for a text.
    Rank,
}

/// How the vectors of a text's tokens become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first token's.
    Cls,
    /// The last token's.
    Last,
    /// A head of the model makes scores of it.
    Rank,
}

impl Pooling {
    /// Its name in options and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mean => "MEAN",
            Self::Cls => "CLS",
            Self::Last => "LAST",
            Self::Rank => "RANK",
        }
    }
}
