//! What an engine is loaded from: model file, limits and backend knobs, as plain values that can be
//! compared and hashed, so that equal specs share one engine.

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
pub use embedding::{EmbeddingSpec, EmbeddingTask, Pooling};
pub use knob_types::{
    CpuKernels, FlashAttention, KvType, Numa, Number, RopeScaling, SplitMode, TensorOverride,
    ThreadPriority,
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

/// Milliseconds that a step may take for each [`STEP_TOKENS`] of its tokens, unless a spec says
/// otherwise: far more than a large model takes on a slow machine.
pub const STEP_TIMEOUT_MS: u32 = 60_000;
/// Tokens of a step that may take `step_timeout_ms` together.
pub const STEP_TOKENS: u32 = 64;
/// How often an engine that failed is started again, unless a spec says otherwise.
pub const MAX_RESTARTS: u32 = 5;

impl LlmEngineSpec {
    /// The defaults for a model file.
    pub fn new(model: impl Into<PathBuf>) -> Self {
        LlmEngineOptions::default().spec(model)
    }

    /// Checks the values that no model or machine could make right.
    ///
    /// # Errors
    /// [`SpecError::OutOfRange`] names the first field that is wrong.
    pub fn validate(&self) -> Result<(), SpecError> {
        // A batch of one token could not hold a decode and a piece of a prompt.
        let least = [
            (
                "max_num_batched_tokens",
                Some(self.max_num_batched_tokens),
                2,
            ),
            ("max_num_seqs", Some(self.max_num_seqs), 1),
            ("max_waiting", Some(self.max_waiting), 1),
            ("priority_aging_ms", Some(self.priority_aging_ms), 1),
            ("max_context", self.max_context, 2),
        ];
        for (field, value, least) in least {
            if let Some(value) = value.filter(|value| *value < least) {
                let message = format!("must be at least {least}, not {value}");
                return Err(SpecError::OutOfRange { field, message });
            }
        }
        let priorities = [
            (
                "min_priority",
                self.min_priority,
                self.min_priority <= 0,
                "most",
            ),
            (
                "max_priority",
                self.max_priority,
                self.max_priority >= 0,
                "least",
            ),
        ];
        for (field, value, is_right, bound) in priorities {
            if !is_right {
                let message = format!(
                    "must be at {bound} 0, the priority of requests that do not say, not {value}"
                );
                return Err(SpecError::OutOfRange { field, message });
            }
        }
        if let Some(draft) = &self.draft {
            draft.validate(self)?;
        }
        AdapterSpec::validate(self)?;
        self.plugin_config.validate(self.device)
    }
}

/// Which backend runs a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// llama.cpp, for GGUF files.
    Llama,
    /// A deterministic stand-in that follows a script, for tests of everything around a model.
    Scripted,
}

impl BackendKind {
    /// The backend for a file of this name.
    pub fn of(model: &Path) -> Self {
        if model.to_string_lossy().ends_with(SCRIPT_SUFFIX) {
            Self::Scripted
        } else {
            Self::Llama
        }
    }
}

const SCRIPT_SUFFIX: &str = ".script.json";

/// What is wrong with a spec or with the path of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Neither the path as written nor the path from the base folder exists.
    #[error("`{models_path}` does not exist (tried `{}`)", tried.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("` and `"))]
    Missing {
        /// The path as written.
        models_path: String,
        /// The paths that were tried.
        tried: Vec<PathBuf>,
    },
    /// The folder holds no model.
    #[error("`{}` holds no `.gguf` file", folder.display())]
    NoModel {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder holds more than one model.
    #[error("`{}` holds {} `.gguf` files ({}): name one of them", folder.display(), files.len(), files.join(", "))]
    SeveralModels {
        /// The folder.
        folder: PathBuf,
        /// Names of the files.
        files: Vec<String>,
    },
    /// The file is of a kind that no backend loads.
    #[error("`{}` is neither a folder nor a `.gguf` file", path.display())]
    NotAModel {
        /// The file.
        path: PathBuf,
    },
    /// The folder cannot be listed.
    #[error("cannot list `{}`: {message}", folder.display())]
    Unreadable {
        /// The folder.
        folder: PathBuf,
        /// Why.
        message: String,
    },
    /// The device's name is not known.
    #[error("unknown device `{device}`, expected `AUTO`, `CPU`, `GPU` or `GPU.<number>`")]
    Device {
        /// The name.
        device: String,
    },
    /// A list of devices that one engine cannot compute on.
    #[error("`{device}` {message}")]
    DeviceList {
        /// The list.
        device: String,
        /// What it asks for, and what to write instead.
        message: &'static str,
    },
    /// The `plugin_config` text is wrong.
    #[error("`plugin_config`: {message}")]
    PluginConfig {
        /// What was expected, with the knob's name.
        message: String,
    },
    /// A value is out of its range.
    #[error("`{field}` {message}")]
    OutOfRange {
        /// The field's name.
        field: &'static str,
        /// What was expected.
        message: String,
    },
}

impl From<SpecError> for LoadError {
    fn from(error: SpecError) -> Self {
        match error {
            SpecError::OutOfRange { field, message } => Self::Spec { field, message },
            other => Self::Spec {
                field: "plugin_config",
                message: other.to_string(),
            },
        }
    }
}
