//! What an engine is loaded from: model file, limits and backend knobs, as plain values that can be compared and hashed, so that
//! equal specs share one engine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything that decides how a model is loaded and batched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSpec {
    /// The model file; see [`resolve_model_path`].
    pub model: PathBuf,
    /// Which backend runs it.
    pub backend: BackendKind,
    /// Most tokens of one step, prompt chunks and decodes together.
    pub max_num_batched_tokens: u32,
    /// Most sequences that compute at the same time.
    pub max_num_seqs: u32,
    /// Ceiling of the KV cache in GB (2^30 bytes); 0 lets the engine choose.
    pub cache_size: u64,
    /// Most tokens of a sequence; `None` takes what the model was trained for.
    pub max_context: Option<u32>,
    /// Splits prompts over steps. Without it a prompt longer than `max_num_batched_tokens` is refused.
    pub dynamic_split_fuse: bool,
    /// Where the model computes.
    pub device: Device,
    /// Most requests that wait for their first admission; more are refused.
    pub max_waiting: u32,
    /// Knobs of the backend.
    pub plugin_config: PluginConfig,
}

impl EngineSpec {
    /// The defaults for a model file. The backend follows from the file's name: `.script.json` is a scripted model, everything
    /// else goes to llama.cpp.
    pub fn new(model: impl Into<PathBuf>) -> Self {
        let model = model.into();
        Self {
            backend: BackendKind::of(&model),
            model,
            max_num_batched_tokens: 256,
            max_num_seqs: 256,
            cache_size: 0,
            max_context: None,
            dynamic_split_fuse: true,
            device: Device::Auto,
            max_waiting: 1024,
            plugin_config: PluginConfig::default(),
        }
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
            ("max_context", self.max_context, 2),
            ("threads", self.plugin_config.threads, 1),
            ("batch_threads", self.plugin_config.batch_threads, 1),
            ("ubatch", self.plugin_config.ubatch, 1),
        ];
        for (field, value, least) in least {
            if let Some(value) = value.filter(|value| *value < least) {
                let message = format!("must be at least {least}, not {value}");
                return Err(SpecError::OutOfRange { field, message });
            }
        }
        if self.plugin_config.kv_type_v.is_quantized()
            && self.plugin_config.flash_attention == FlashAttention::Off
        {
            return Err(SpecError::OutOfRange {
                field: "kv_type_v",
                message: format!(
                    "`{}` needs flash attention, which is off",
                    self.plugin_config.kv_type_v
                ),
            });
        }
        Ok(())
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

/// Where a model computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Device {
    /// A GPU if this build and machine have one, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU of this number.
    Gpu(u32),
}

impl FromStr for Device {
    type Err = SpecError;

    /// Reads `AUTO`, `CPU`, `GPU` and `GPU.1`; an empty text is `AUTO`.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let unknown = || SpecError::Device {
            device: text.to_owned(),
        };
        match text.to_ascii_uppercase().as_str() {
            "" | "AUTO" => Ok(Self::Auto),
            "CPU" => Ok(Self::Cpu),
            "GPU" => Ok(Self::Gpu(0)),
            other => match other.strip_prefix("GPU.") {
                Some(number) => number.parse().map(Self::Gpu).map_err(|_| unknown()),
                None => Err(unknown()),
            },
        }
    }
}

/// Knobs of llama.cpp, as the JSON object in the graph's `plugin_config`. Unknown names are errors.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PluginConfig {
    /// Threads that decode; the machine's cores without it.
    pub threads: Option<u32>,
    /// Threads that process prompts; as `threads` without it.
    pub batch_threads: Option<u32>,
    /// Most tokens computed at once inside a step; 512 without it, and never more than `max_num_batched_tokens`.
    pub ubatch: Option<u32>,
    /// Flash attention.
    pub flash_attention: FlashAttention,
    /// Type of the cached keys.
    pub kv_type_k: KvType,
    /// Type of the cached values. Quantized types need flash attention.
    pub kv_type_v: KvType,
    /// One pool of KV cells for all sequences (`true`), or a stream of its own for each of the `max_num_seqs` (`false`). Without
    /// it, sequences have their own streams where the cache is large enough to give each a whole context: what a sequence
    /// computes then does not depend on which others are there.
    pub kv_unified: Option<bool>,
    /// Maps the model file instead of reading it.
    pub mmap: bool,
    /// Keeps the model's pages in memory.
    pub mlock: bool,
    /// Layers on the GPU; all of them without it.
    pub gpu_layers: Option<u32>,
}

impl Default for PluginConfig {
    fn default() -> Self {
        Self {
            threads: None,
            batch_threads: None,
            ubatch: None,
            flash_attention: FlashAttention::Auto,
            kv_type_k: KvType::F16,
            kv_type_v: KvType::F16,
            kv_unified: None,
            mmap: true,
            mlock: false,
            gpu_layers: None,
        }
    }
}

impl PluginConfig {
    /// Reads the JSON text of a graph's `plugin_config`; an empty text is the default.
    ///
    /// # Errors
    /// [`SpecError::PluginConfig`] names the knob that is unknown or has a wrong value.
    pub fn from_json(text: &str) -> Result<Self, SpecError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_str(text).map_err(|error| SpecError::PluginConfig {
            message: error.to_string(),
        })
    }
}

/// When attention is computed by the fused kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlashAttention {
    /// Where the device supports it.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// Number types of the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KvType {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// 16-bit brain float.
    Bf16,
    /// 8-bit blocks.
    #[serde(rename = "q8_0")]
    Q8_0,
    /// 5-bit blocks with an offset.
    #[serde(rename = "q5_1")]
    Q5_1,
    /// 5-bit blocks.
    #[serde(rename = "q5_0")]
    Q5_0,
    /// 4-bit blocks with an offset.
    #[serde(rename = "q4_1")]
    Q4_1,
    /// 4-bit blocks.
    #[serde(rename = "q4_0")]
    Q4_0,
}

impl KvType {
    /// Bytes of one block and how many numbers it holds.
    pub fn block(self) -> (u64, u64) {
        match self {
            Self::F32 => (4, 1),
            Self::F16 | Self::Bf16 => (2, 1),
            Self::Q8_0 => (34, 32),
            Self::Q5_1 => (24, 32),
            Self::Q5_0 => (22, 32),
            Self::Q4_1 => (20, 32),
            Self::Q4_0 => (18, 32),
        }
    }

    /// Whether several numbers share a scale.
    pub fn is_quantized(self) -> bool {
        self.block().1 > 1
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Q8_0 => "q8_0",
            Self::Q5_1 => "q5_1",
            Self::Q5_0 => "q5_0",
            Self::Q4_1 => "q4_1",
            Self::Q4_0 => "q4_0",
        })
    }
}

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

/// Finds the model file that `models_path` means: a `.gguf` file (or a `.script.json` file), or a folder that holds exactly one
/// `.gguf` file. A relative path starts at `base_dir`.
///
/// # Errors
/// [`SpecError`] says what was looked for and what was found instead.
pub fn resolve_model_path(base_dir: &Path, models_path: &str) -> Result<PathBuf, SpecError> {
    let joined = base_dir.join(models_path);
    let found = if joined.exists() {
        joined
    } else {
        let plain = PathBuf::from(models_path);
        if !plain.exists() {
            let mut tried = vec![joined, plain];
            tried.dedup();
            return Err(SpecError::Missing {
                models_path: models_path.to_owned(),
                tried,
            });
        }
        plain
    };
    if found.is_dir() {
        return only_model_in(&found);
    }
    if is_gguf(&found) || BackendKind::of(&found) == BackendKind::Scripted {
        Ok(found)
    } else {
        Err(SpecError::NotAModel { path: found })
    }
}

fn only_model_in(folder: &Path) -> Result<PathBuf, SpecError> {
    let unreadable = |error: std::io::Error| SpecError::Unreadable {
        folder: folder.to_owned(),
        message: error.to_string(),
    };
    let mut models = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if is_gguf(&path) && path.is_file() {
            models.push(path);
        }
    }
    models.sort();
    match models.len() {
        0 => Err(SpecError::NoModel {
            folder: folder.to_owned(),
        }),
        1 => Ok(models.remove(0)),
        _ => {
            let files = models
                .iter()
                .filter_map(|path| path.file_name())
                .map(|name| name.to_string_lossy().into_owned())
                .collect();
            Err(SpecError::SeveralModels {
                folder: folder.to_owned(),
                files,
            })
        }
    }
}

fn is_gguf(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}
