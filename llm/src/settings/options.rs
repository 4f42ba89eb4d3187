//! Options of an engine, each declared once: its name, type, range, default and description in a
//! graph, and its field in the spec that the engine is loaded from.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AdapterSpec, BackendKind, Device, DraftSpec, MAX_RESTARTS, PluginConfig, STEP_TIMEOUT_MS,
    VisionSpec,
};

/// Maximum number of tokens in a step.
pub const MAX_BATCHED_TOKENS: u32 = 1 << 20;
/// Maximum number of concurrent sequences. Each has a slot, whether used or not.
pub const MAX_SEQS: u32 = 65_536;
/// Maximum number of tokens in a sequence.
pub const MAX_CONTEXT: u32 = 1 << 24;
/// Maximum number of queued requests.
pub const MAX_WAITING: u32 = 1_000_000;
/// Default time limit of a step, in seconds.
pub const DEFAULT_STEP_TIMEOUT: f64 = STEP_TIMEOUT_MS as f64 / 1e3;
/// Maximum time limit of a step, in seconds: a day.
pub const MAX_STEP_TIMEOUT: u32 = 86_400;
/// Maximum number of restarts within ten minutes.
pub const MAX_ENGINE_RESTARTS: u32 = 1_000;
/// Maximum size of a cache, in GB: more memory than any machine has.
pub const MAX_GB: u32 = 1_000_000;

/// Declares the options and the fields of the spec made from them: `option: type = default =>
/// field: type`, and the conversion function if the types differ.
macro_rules! declare {
    (
        $(#[$about:meta])* pub struct LlmEngineSpec { $($(#[$doc:meta])* pub $own:ident: $of:ty,)* }
        $(#[$other:meta])* pub struct LlmEngineOptions {
            $($(#[$meta:meta])* $option:ident: $type:ty = $default:expr => $field:ident: $kept:ty $(= $convert:ident)?;)*
        }
    ) => {
        $(#[$about])*
        pub struct LlmEngineSpec {
            $($(#[$doc])* pub $own: $of,)*
            $(
                #[doc = concat!("As [`", stringify!($option), "`](LlmEngineOptions::", stringify!($option), ").")]
                pub $field: $kept,
            )*
        }

        $(#[$other])*
        pub struct LlmEngineOptions {
            $($(#[$meta])* pub $option: $type,)*
        }

        impl Default for LlmEngineOptions {
            fn default() -> Self {
                Self { $($option: $default,)* }
            }
        }

        impl LlmEngineOptions {
            /// Returns the spec of a model file with these options. The backend follows from the
            /// file's name: `.script.json` is a scripted model, everything else uses llama.cpp.
            pub fn spec(&self, model: impl Into<PathBuf>) -> LlmEngineSpec {
                let model = model.into();
                LlmEngineSpec {
                    backend: BackendKind::for_model(&model),
                    model,
                    device: Device::Auto,
                    draft: None,
                    adapters: Vec::new(),
                    vision: None,
                    plugin_config: PluginConfig::default(),
                    $($field: declare!(@ self.$option $(, $convert)?),)*
                }
            }
        }
    };
    (@ $value:expr) => { $value };
    (@ $value:expr, $convert:ident) => { $convert($value) };
}

/// Returns `None` for 0, which stands for no limit.
fn nonzero<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

/// Returns the bytes of a size in GB.
pub fn bytes_of_gb(size: f64) -> u64 {
    (size * f64::from(1 << 30)) as u64
}

fn bytes(size: Option<f64>) -> Option<u64> {
    size.map(bytes_of_gb)
}

/// Returns the milliseconds of a time in seconds, rounded up.
pub fn milliseconds(seconds: f64) -> u32 {
    (seconds * 1e3).ceil() as u32
}

declare! {
    /// Everything that determines how a model is loaded and batched.
    #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct LlmEngineSpec {
        /// The model file; see [`resolve_model_path`](super::resolve_model_path).
        pub model: PathBuf,
        /// Backend that runs the model.
        pub backend: BackendKind,
        /// Device that computes the model.
        pub device: Device,
        /// A smaller model that drafts tokens for requests that ask for it.
        pub draft: Option<DraftSpec>,
        /// LoRA adapters that requests can name.
        pub adapters: Vec<AdapterSpec>,
        /// Projector for images and sounds; `None` for a model that takes neither.
        pub vision: Option<VisionSpec>,
        /// Options of the backend, from the graph's `plugin_config`.
        pub plugin_config: PluginConfig,
    }

    /// Options of an engine in a graph.
    #[derive(Clone, Debug, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct LlmEngineOptions {
        /// Maximum number of tokens in one step, prompt chunks and decodes together. Prompts keep a
        /// part of it even if decodes could fill it.
        #[schemars(range(min = 2, max = MAX_BATCHED_TOKENS))]
        max_num_batched_tokens: u32 = 256 => max_num_batched_tokens: u32;
        /// Maximum size of the KV cache in GB; 0 takes 256 MB, or one whole context if that is
        /// more. It takes less if the sequences or the memory cannot use as much.
        #[schemars(range(max = MAX_GB))]
        cache_size: u64 = 0 => cache_size: u64;
        /// Maximum number of sequences that compute at the same time. llama.cpp supports at most
        /// 256.
        #[schemars(range(min = 1, max = MAX_SEQS))]
        max_num_seqs: u32 = 256 => max_num_seqs: u32;
        /// Splits long prompts over steps. Without it, prompts longer than `max_num_batched_tokens`
        /// are refused.
        dynamic_split_fuse: bool = true => dynamic_split_fuse: bool;
        /// Reuses the beginning of a prompt from running and finished sequences with the same
        /// beginning, instead of computing it.
        enable_prefix_caching: bool = true => prefix_caching: bool;
        /// Maximum host memory in GB for the cells of finished sequences, 0.5 for example; 0 keeps
        /// none. The default is an eighth of the memory that is free when the model is loaded.
        #[schemars(range(min = 0, max = MAX_GB))]
        prefix_cache_size: Option<f64> = None => prefix_cache_size: Option<u64> = bytes;
        /// Maximum host memory in GB for checkpoints, which models with recurrent layers or sliding
        /// windows need besides cells to reuse a prefix. 0 keeps none, and such models compute
        /// every prompt. The default is another eighth of the memory that is free when the model is
        /// loaded. Other models have no checkpoints.
        #[schemars(range(min = 0, max = MAX_GB))]
        checkpoint_cache_size: Option<f64> = None => checkpoint_cache_size: Option<u64> = bytes;
        /// Maximum number of tokens in a sequence; 0 takes the model's trained context. A model
        /// that leaves no memory for one such sequence is refused.
        #[schemars(range(max = MAX_CONTEXT))]
        max_context: u32 = 0 => max_context: Option<u32> = nonzero;
        /// Maximum number of generations that wait for a slot or whose prompts are being prepared;
        /// more are refused. A request takes at most half of the free places, and submits the rest
        /// of its generations when earlier ones have begun.
        #[schemars(range(min = 1, max = MAX_WAITING))]
        max_waiting: u32 = 1024 => max_waiting: u32;
        /// Maximum number of prompt tokens in the generations that wait for their first slot; a
        /// prompt that exceeds it is refused, unless no other waits. 0 is no limit.
        max_queued_prompt_tokens: u64 = 0 => max_queued_prompt_tokens: Option<u64> = nonzero;
        /// Milliseconds that a request may wait for its first slot before it fails with status 429;
        /// 0 is no limit.
        queue_timeout_ms: u32 = 600_000 => queue_timeout_ms: u32;
        /// Target time of a step in milliseconds while sequences generate: prompts get as many
        /// tokens as fit, and at least 16. 0 chooses three times the time of generating alone, and
        /// at least 200; up to four times that if several prompts wait.
        #[schemars(range(max = 3_600_000))]
        target_step_ms: u32 = 0 => target_step_ms: u32;
        /// Milliseconds of waiting that equal one point of a request's `priority`.
        #[schemars(range(min = 1))]
        priority_aging_ms: u32 = 10_000 => priority_aging_ms: u32;
        /// Seconds that a step may take for each 64 of its tokens. A slower engine is abandoned and
        /// replaced, and its requests end with status 503. 0 is no limit.
        #[schemars(range(min = 0, max = MAX_STEP_TIMEOUT))]
        step_timeout: f64 = DEFAULT_STEP_TIMEOUT => step_timeout_ms: u32 = milliseconds;
        /// Maximum number of restarts of a failed engine within ten minutes. After more failures,
        /// the server's liveness check fails.
        #[schemars(range(max = MAX_ENGINE_RESTARTS))]
        max_engine_restarts: u32 = MAX_RESTARTS => max_engine_restarts: u32;
        /// Lowest `priority` of a request; at most 0.
        #[schemars(range(min = -1_000_000, max = 0))]
        min_priority: i32 = -10 => min_priority: i32;
        /// Highest `priority` of a request; at least 0. A higher priority delays a request by at
        /// most `priority_aging_ms` times the difference in points.
        #[schemars(range(min = 0, max = 1_000_000))]
        max_priority: i32 = 10 => max_priority: i32;
    }
}
