//! Spec of an engine: model file, limits and backend options, as plain values. They can be compared
//! and hashed, so that equal specs share one engine.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::protocol::LoadError;

mod adapter;
mod device;
mod draft;
mod embedding;
mod knob_types;
mod knobs;
mod options;
mod path;
mod plugin_config;
mod process;
mod vision;

pub use adapter::AdapterSpec;
pub use device::Device;
pub use draft::DraftSpec;
pub use embedding::{EmbeddingSpec, EmbeddingTask};
pub use knob_types::{
    CpuKernels, FlashAttention, KvType, Numa, Number, Pooling, RopeScaling, SplitMode,
    TensorOverride, ThreadPriority,
};
pub use knobs::PluginConfig;
pub use options::{
    DEFAULT_STEP_TIMEOUT, LlmEngineOptions, LlmEngineSpec, MAX_BATCHED_TOKENS, MAX_CONTEXT,
    MAX_ENGINE_RESTARTS, MAX_GB, MAX_SEQS, MAX_STEP_TIMEOUT, MAX_WAITING, bytes_of_gb,
    milliseconds,
};
pub use path::{projector_beside, resolve_model_path};
pub(crate) use process::{TRIAL_VARIABLE, is_trial};
pub use vision::VisionSpec;

/// Default time limit of a step in milliseconds, per [`STEP_TOKENS`] tokens: far more than a large
/// model takes on a slow machine.
pub const STEP_TIMEOUT_MS: u32 = 60_000;
/// Number of tokens of a step to which `step_timeout_ms` applies.
pub const STEP_TOKENS: u32 = 64;
/// Default number of restarts of a failed engine within ten minutes.
pub const MAX_RESTARTS: u32 = 5;

impl LlmEngineSpec {
    /// Creates a spec with the defaults for a model file.
    pub fn new(model: impl Into<PathBuf>) -> Self {
        LlmEngineOptions::default().spec(model)
    }

    /// Checks values that are wrong for every model and machine.
    ///
    /// # Errors
    /// [`SpecError::OutOfRange`] with the first field that is wrong.
    pub fn validate(&self) -> Result<(), SpecError> {
        // A batch of one token could not hold both a decode and a part of a prompt.
        check_least("max_num_batched_tokens", self.max_num_batched_tokens, 2)?;
        check_least("max_num_seqs", self.max_num_seqs, 1)?;
        check_least("max_waiting", self.max_waiting, 1)?;
        check_least("priority_aging_ms", self.priority_aging_ms, 1)?;
        check_least("max_context", self.max_context, 2)?;
        let (min, max) = (self.min_priority, self.max_priority);
        for (field, value, is_wrong, bound) in [
            ("min_priority", min, min > 0, "most"),
            ("max_priority", max, max < 0, "least"),
        ] {
            if is_wrong {
                let message = format!(
                    "must be at {bound} 0, the default priority of a request, and not {value}"
                );
                return Err(SpecError::out_of_range(field, message));
            }
        }
        if let Some(draft) = &self.draft {
            draft.validate(self)?;
        }
        AdapterSpec::validate(self)?;
        self.plugin_config.validate(self.device)
    }
}

/// Checks that a field, if it has a value, has at least this one.
fn check_least(
    field: &'static str,
    value: impl Into<Option<u32>>,
    least: u32,
) -> Result<(), SpecError> {
    match value.into() {
        Some(value) if value < least => {
            let message = format!("must be at least {least}, not {value}");
            Err(SpecError::out_of_range(field, message))
        }
        _ => Ok(()),
    }
}

/// Backend that runs a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// llama.cpp, for GGUF files.
    Llama,
    /// A deterministic stand-in that follows a script, for tests of everything around a model.
    Scripted,
}

impl BackendKind {
    /// Selects the backend for a file by its name.
    pub fn for_model(model: &Path) -> Self {
        if model.to_string_lossy().ends_with(SCRIPT_SUFFIX) {
            Self::Scripted
        } else {
            Self::Llama
        }
    }
}

const SCRIPT_SUFFIX: &str = ".script.json";

/// Mistake in a spec or in the path of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Neither the path as written nor the path from the base folder exists.
    #[error("`{models_path}` does not exist (tried `{}`)", tried.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("` and `"))]
    Missing {
        /// The path in the graph.
        models_path: String,
        /// The paths that were tried.
        tried: Vec<PathBuf>,
    },
    /// The folder contains no model.
    #[error("`{}` holds no `.gguf` file", folder.display())]
    NoModel {
        /// Path of the folder without a model.
        folder: PathBuf,
    },
    /// The path leads to several models, to a file of another kind, or to a folder that cannot be
    /// listed; holds the whole message.
    #[error("{0}")]
    ModelPath(String),
    /// No device has this name, or one engine cannot compute on this list of devices; holds the
    /// whole message.
    #[error("{0}")]
    Device(String),
    /// The `plugin_config` text is wrong.
    #[error("`plugin_config`: {message}")]
    PluginConfig {
        /// Name of the option, and its allowed values.
        message: String,
    },
    /// A value is out of its range.
    #[error("`{field}` {message}")]
    OutOfRange {
        /// Name of the field in the graph.
        field: &'static str,
        /// The allowed values, as text.
        message: String,
    },
}

impl SpecError {
    /// Creates the error about a field. The message continues its name.
    pub(crate) fn out_of_range(field: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::OutOfRange { field, message }
    }
}

impl From<SpecError> for LoadError {
    fn from(error: SpecError) -> Self {
        match error {
            SpecError::OutOfRange { field, message } => Self::Spec { field, message },
            other => Self::spec("plugin_config", other.to_string()),
        }
    }
}
