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
/// Maximum number of concurrent sequences: each has a slot, used or not.
pub const MAX_SEQS: u32 = 65_536;
/// Maximum number of tokens in a sequence.
pub const MAX_CONTEXT: u32 = 1 << 24;
/// Maximum number of queued requests.
pub const MAX_WAITING: u32 = 1_000_000;
/// Seconds that a step may take, unless an option says otherwise.
pub const DEFAULT_STEP_TIMEOUT: f64 = STEP_TIMEOUT_MS as f64 / 1e3;
/// Maximum timeout of a step, in seconds: a day.
pub const MAX_STEP_TIMEOUT: u32 = 86_400;
/// Maximum number of restarts within ten minutes.
pub const MAX_ENGINE_RESTARTS: u32 = 1_000;
/// Maximum size of a cache, in GB: more memory than any machine has.
pub const MAX_GB: u32 = 1_000_000;

/// Declares the options and, from them, the fields of the spec: `option: type = default => field:
/// type`, and the function that makes the field where the types differ.
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
            /// file's name: `.script.json` is a scripted model, everything else goes to llama.cpp.
            pub fn spec(&self, model: impl Into<PathBuf>) -> LlmEngineSpec {
                let model = model.into();
                LlmEngineSpec {
                    backend: BackendKind::of(&model),
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

/// Returns none for 0, which stands for no limit.
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
    /// Everything that decides how a model is loaded and batched.
    #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct LlmEngineSpec {
        /// The model file; see [`resolve_model_path`](super::resolve_model_path).
        pub model: PathBuf,
        /// Backend that runs it.
        pub backend: BackendKind,
        /// Device that computes it.
        pub device: Device,
        /// A smaller model that drafts tokens for requests that ask for it.
        pub draft: Option<DraftSpec>,
        /// Adapters of the model that requests can name.
        pub adapters: Vec<AdapterSpec>,
        /// Projector for images and sounds; `None` for a model that takes neither.
        pub vision: Option<VisionSpec>,
        /// Knobs of the backend.
        pub plugin_config: PluginConfig,
    }

    /// Options of an engine in a graph.
    #[derive(Clone, Debug, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct LlmEngineOptions {
        /// Maximum number of tokens in one step, prompt chunks and decodes together. Where decodes
        /// would fill it, prompts keep a part.
        #[schemars(range(min = 2, max = MAX_BATCHED_TOKENS))]
        max_num_batched_tokens: u32 = 256 => max_num_batched_tokens: u32;
        /// Maximum size of the KV cache in GB; 0 takes 256 MB, or one whole context if that is
        /// more. A ceiling: it takes less where the sequences or the memory cannot use as much.
        #[schemars(range(max = MAX_GB))]
        cache_size: u64 = 0 => cache_size: u64;
        /// Maximum number of sequences that compute at the same time. llama.cpp can do 256.
        #[schemars(range(min = 1, max = MAX_SEQS))]
        max_num_seqs: u32 = 256 => max_num_seqs: u32;
        /// Splits long prompts over steps; without it, prompts longer than `max_num_batched_tokens`
        /// are refused.
        dynamic_split_fuse: bool = true => dynamic_split_fuse: bool;
        /// Takes the beginning of a prompt over from running and finished sequences that begin
        /// alike, instead of computing it.
        enable_prefix_caching: bool = true => prefix_caching: bool;
        /// Maximum host memory in GB for what finished sequences computed, 0.5 for example; 0 keeps
        /// nothing. Without it, an eighth of the memory that is free when the model is loaded.
        #[schemars(range(min = 0, max = MAX_GB))]
        prefix_cache_size: Option<f64> = None => prefix_cache_size: Option<u64> = bytes;
        /// Maximum host memory in GB for checkpoints: what models with recurrent layers or sliding
        /// windows need beside cells to go on from a beginning; 0 keeps none, and computes all
        /// prompts of such models. Without it, another eighth of the memory that is free when the
        /// model is loaded. Other models have no checkpoints.
        #[schemars(range(min = 0, max = MAX_GB))]
        checkpoint_cache_size: Option<f64> = None => checkpoint_cache_size: Option<u64> = bytes;
        /// Maximum number of tokens in a sequence; 0 takes what the model was trained for. A model
        /// that leaves no memory for one such sequence is refused.
        #[schemars(range(max = MAX_CONTEXT))]
        max_context: u32 = 0 => max_context: Option<u32> = nonzero;
        /// Maximum number of generations that wait for a place in the batches or make their prompt;
        /// more are refused. One request has at most half of the places that are left, and submits
        /// the rest of its generations when earlier ones have begun.
        #[schemars(range(min = 1, max = MAX_WAITING))]
        max_waiting: u32 = 1024 => max_waiting: u32;
        /// Maximum number of prompt tokens in the generations that wait for their first place in
        /// the batches: one that would add to more is refused, unless none waits. 0 is without
        /// bound.
        max_queued_prompt_tokens: u64 = 0 => max_queued_prompt_tokens: Option<u64> = nonzero;
        /// Milliseconds that a request may wait for its first place in the batches before it fails
        /// with status 429; 0 is without bound.
        queue_timeout_ms: u32 = 600_000 => queue_timeout_ms: u32;
        /// Milliseconds that a step should take at most while sequences generate: prompts get as
        /// many tokens as fit, and at least 16. 0 chooses three times what generating alone takes,
        /// and at least 200.
        #[schemars(range(max = 3_600_000))]
        target_step_ms: u32 = 0 => target_step_ms: u32;
        /// Milliseconds of waiting that make up for one point of a request's `priority`.
        #[schemars(range(min = 1))]
        priority_aging_ms: u32 = 10_000 => priority_aging_ms: u32;
        /// Seconds that a step may take for each 64 of its tokens; an engine that takes longer is
        /// given up and started again, and its requests end with status 503. 0 is without bound.
        #[schemars(range(min = 0, max = MAX_STEP_TIMEOUT))]
        step_timeout: f64 = DEFAULT_STEP_TIMEOUT => step_timeout_ms: u32 = milliseconds;
        /// Number of times that an engine that has failed is started again within ten minutes,
        /// before the server says that it is not alive.
        #[schemars(range(max = MAX_ENGINE_RESTARTS))]
        max_engine_restarts: u32 = MAX_RESTARTS => max_engine_restarts: u32;
        /// The lowest `priority` that a request may have; at most 0.
        #[schemars(range(min = -1_000_000, max = 0))]
        min_priority: i32 = -10 => min_priority: i32;
        /// The highest; at least 0. Requests are held up by those of a higher priority for as many
        /// times `priority_aging_ms` as there are points between them, and no longer.
        #[schemars(range(min = 0, max = 1_000_000))]
        max_priority: i32 = 10 => max_priority: i32;
    }
}
