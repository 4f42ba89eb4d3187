//! `LLMCalculatorOptions`: the options of OVMS graphs, field by field.
//!
//! A field either has the same meaning here, or is refused because ignoring it would give wrong
//! answers, or is accepted with a warning that it has no effect.

use graphmill_llm::spec::{MAX_RESTARTS, STEP_TIMEOUT_MS};
use graphmill_llm::{PluginConfig, SpeculationParams};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::media::{ImageLimits, SoundLimits};

/// Seconds that a step may take, unless a graph says otherwise.
pub(crate) const DEFAULT_STEP_TIMEOUT: f64 = STEP_TIMEOUT_MS as f64 / 1e3;

/// Maximum number of tokens in a step.
pub(crate) const MAX_BATCHED_TOKENS: u32 = 1 << 20;
/// Maximum number of concurrent sequences: each has a slot, used or not.
const MAX_SEQS: u32 = 65_536;
/// Maximum number of tokens in a sequence.
pub(crate) const MAX_CONTEXT: u32 = 1 << 24;
/// Maximum number of queued requests.
pub(crate) const MAX_WAITING: u32 = 1_000_000;
/// Maximum timeout of a step, in seconds: a day.
pub(crate) const MAX_STEP_TIMEOUT: u32 = 86_400;
/// Maximum number of restarts within ten minutes.
pub(crate) const MAX_ENGINE_RESTARTS: u32 = 1_000;
/// Maximum size of a cache, in GB: more memory than any machine has.
const MAX_GB: u32 = 1_000_000;
/// Maximum number of images or sounds in a request.
pub(crate) const MAX_MEDIA: u32 = 1_024;
/// Maximum size of an image or sound file, in bytes.
pub(crate) const MAX_MEDIUM_BYTES: u64 = 1 << 30;
/// Maximum number of pixels in an image.
pub(crate) const MAX_IMAGE_PIXELS: u64 = 1 << 28;

/// Options of [`Llm`](super::Llm).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LlmOptions {
    /// Folder with one `.gguf` file beside projectors (`mmproj*.gguf`), or such a file; relative to
    /// the graph's folder. Required.
    pub models_path: String,
    /// Most tokens of one step, prompt chunks and decodes together. Where decodes would fill it,
    /// prompts keep a part.
    #[schemars(range(min = 2, max = MAX_BATCHED_TOKENS))]
    pub max_num_batched_tokens: u32,
    /// Most GB the KV cache may take; 0 takes 256 MB, or one whole context if that is more. A
    /// ceiling: it takes less where the sequences or the memory cannot use as much.
    #[schemars(range(max = MAX_GB))]
    pub cache_size: u64,
    /// Most sequences that compute at the same time. llama.cpp can do 256.
    #[schemars(range(min = 1, max = MAX_SEQS))]
    pub max_num_seqs: u32,
    /// Splits long prompts over steps; without it, prompts longer than `max_num_batched_tokens` are
    /// refused.
    pub dynamic_split_fuse: bool,
    /// `CPU`; `GPU` or `GPU.0` for the first GPU, `GPU.1` for the second; `AUTO` for all GPUs there
    /// are, or else the CPU.
    pub device: String,
    /// Most tokens drafted in a step, 1 to 32, for requests that draft and do not say.
    #[schemars(range(min = 1, max = SpeculationParams::MAX_DRAFTS))]
    pub num_assistant_tokens: u32,
    /// Longest run of tokens that prompt lookup searches for, 1 to 8, for requests that draft and
    /// do not say.
    #[schemars(range(min = 1, max = 8))]
    pub max_ngram_size: u32,
    /// JSON object with the backend's knobs. Some properties of OpenVINO mean the same as a knob,
    /// others have no effect, which is logged; any other name is an error.
    #[schemars(extend("contentMediaType" = "application/json", "contentSchema" = schemars::schema_for!(PluginConfig)))]
    pub plugin_config: String,
    /// `n` of a request has to be below this.
    #[schemars(range(min = 1, max = 1_024))]
    pub best_of_limit: u32,
    /// Most tokens a choice may have, and how many it has when the request does not say; 0 is
    /// without limit.
    pub max_tokens_limit: u32,
    /// Takes the beginning of a prompt over from running and finished sequences that begin alike,
    /// instead of computing it.
    pub enable_prefix_caching: bool,
    /// Most GB of host memory for what finished sequences computed, 0.5 for example; 0 keeps
    /// nothing. Without it, an eighth of the memory that is free when the model is loaded.
    #[schemars(range(min = 0, max = MAX_GB))]
    pub prefix_cache_size: Option<f64>,
    /// Most GB of host memory for checkpoints: what models with recurrent layers or sliding windows
    /// need beside cells to go on from a beginning; 0 keeps none, and computes all prompts of such
    /// models. Without it, another eighth of the memory that is free when the model is loaded.
    /// Other models have no checkpoints.
    #[schemars(range(min = 0, max = MAX_GB))]
    pub checkpoint_cache_size: Option<f64>,
    /// Most tokens of a sequence; 0 takes what the model was trained for. A model that leaves no
    /// memory for one such sequence is refused.
    #[schemars(range(max = MAX_CONTEXT))]
    pub max_context: u32,
    /// Most generations that wait for a place in the batches or make their prompt; more are
    /// refused. One request has at most half of the places that are left, and submits the rest of
    /// its generations when earlier ones have begun.
    #[schemars(range(min = 1, max = MAX_WAITING))]
    pub max_waiting: u32,
    /// Most prompt tokens of the generations that wait for their first place in the batches: one
    /// that would add to more is refused, unless none waits. 0 is without bound.
    pub max_queued_prompt_tokens: u64,
    /// Milliseconds that a request may wait for its first place in the batches before it fails with
    /// status 429; 0 is without bound.
    pub queue_timeout_ms: u32,
    /// Milliseconds that a step should take at most while sequences generate: prompts get as many
    /// tokens as fit, and at least 16. 0 chooses three times what generating alone takes, and at
    /// least 200.
    #[schemars(range(max = 3_600_000))]
    pub target_step_ms: u32,
    /// Milliseconds of waiting that make up for one point of a request's `priority`.
    #[schemars(range(min = 1))]
    pub priority_aging_ms: u32,
    /// Seconds that a step may take for each 64 of its tokens; an engine that takes longer is given
    /// up and started again, and its requests end with status 503. 0 is without bound.
    #[schemars(range(min = 0, max = MAX_STEP_TIMEOUT))]
    pub step_timeout: f64,
    /// How often an engine that has failed is started again within ten minutes, before the server
    /// says that it is not alive.
    #[schemars(range(max = MAX_ENGINE_RESTARTS))]
    pub max_engine_restarts: u32,
    /// The lowest `priority` that a request may have; at most 0.
    #[schemars(range(min = -1_000_000, max = 0))]
    pub min_priority: i32,
    /// The highest; at least 0. Requests are held up by those of a higher priority for as many
    /// times `priority_aging_ms` as there are points between them, and no longer.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_priority: i32,
    /// A Jinja file, relative to the graph's folder, that replaces the model's chat template.
    pub chat_template_file: String,
    /// `VLM`, `VLM_CB` and `OMNI` need a projector. Answers are text.
    pub pipeline_type: PipelineType,
    /// Both modes are rendered in the same way.
    pub chat_template_mode: ChatTemplateMode,
    /// Folder with one `.gguf` file, or such a file; relative to the graph's folder. A smaller
    /// model with the same vocabulary, which drafts tokens for all requests that do not say
    /// otherwise.
    pub draft_models_path: String,
    /// Where the draft model computes; where the model does when empty.
    pub draft_device: String,
    /// Most tokens that the draft model computes at once; `max_num_batched_tokens` when not set.
    #[schemars(range(min = 2, max = MAX_BATCHED_TOKENS))]
    pub draft_max_num_batched_tokens: Option<u32>,
    /// Most GB that the draft model's KV cache may take; `cache_size` when not set.
    #[schemars(range(max = MAX_GB))]
    pub draft_cache_size: Option<u64>,
    /// The projector of a model that reads images or sounds: a `.gguf` file, relative to the
    /// graph's folder. When empty, the one file `mmproj*.gguf` in the model's folder, if there is
    /// one; `none` for a model that is to read text alone.
    pub mmproj: String,
    /// Most GB of host memory for images and sounds that were encoded, and need not be again; 0
    /// keeps none, and 0.25 are kept when not set.
    #[schemars(range(min = 0, max = MAX_GB))]
    pub image_cache_size: Option<f64>,
    /// Most images of a request.
    #[schemars(range(max = MAX_MEDIA))]
    pub max_images: u32,
    /// Most bytes of an image's file.
    #[schemars(range(max = MAX_MEDIUM_BYTES))]
    pub max_image_bytes: u64,
    /// Most pixels of an image, width times height. A larger one is refused before it is decoded.
    #[schemars(range(max = MAX_IMAGE_PIXELS))]
    pub max_image_pixels: u64,
    /// Most sounds of a request.
    #[schemars(range(max = MAX_MEDIA))]
    pub max_sounds: u32,
    /// Most bytes of a sound's file.
    #[schemars(range(max = MAX_MEDIUM_BYTES))]
    pub max_sound_bytes: u64,
    /// Most seconds of a sound. A longer one is refused as soon as so many are decoded.
    #[schemars(range(max = 86_400))]
    pub max_sound_seconds: u32,
    /// LoRA adapters that requests can choose, by `model: "graph:adapter"` or `model: "adapter"`.
    /// All compute side by side.
    pub lora_adapters: Vec<LoraAdapter>,
    /// Without effect: cells are not kept in blocks.
    pub draft_block_size: Option<u64>,
    /// Most sequences that the draft model keeps; `max_num_seqs` when not set. Where more draft,
    /// those that did not for longest are computed again.
    #[schemars(range(min = 1, max = MAX_SEQS))]
    pub draft_max_num_seqs: Option<u32>,
    /// `false` is refused: the draft model computes long texts in pieces.
    pub draft_dynamic_split_fuse: Option<bool>,
    /// Requires `draft_models_path` to name an EAGLE3 model; another one is refused then. An
    /// EAGLE3 model is known as such without this.
    pub draft_eagle3_mode: bool,
    /// Without effect: nothing of a live sequence is evicted.
    pub cache_eviction_config: Option<CacheEvictionConfig>,
    /// Without effect: attention is exact.
    pub sparse_attention_config: Option<SparseAttentionConfig>,
    /// Without effect.
    pub cache_interval_multiplier: Option<u64>,
    /// How the model writes tool calls: `hermes`, `llama3`, `mistral`, `phi4`, `qwen3coder`,
    /// `gptoss`, `deepseek`, `json`, or `none` to leave them in the text; empty for what its chat
    /// template says.
    pub tool_parser: String,
    /// How the model writes reasoning: `think`, `seed`, `mistral`, `gptoss`, or `none` to leave it
    /// in the text; empty for what its chat template says.
    pub reasoning_parser: String,
    /// Holds calls of tools to their format and to the tools' schemas even where the request leaves
    /// it to the model whether to call. Formats that do not mark calls, such as plain JSON, are not
    /// held.
    pub enable_tool_guided_generation: bool,
    /// Refused, as are the next ones: the engine batches by itself.
    #[schemars(skip)]
    pub dynamic_batching: Vec<IgnoredAny>,
    /// Refused.
    #[schemars(skip)]
    pub max_batch_size: Vec<IgnoredAny>,
    /// Refused.
    #[schemars(skip)]
    pub preferred_batch_size: Vec<IgnoredAny>,
    /// Refused.
    #[schemars(skip)]
    pub max_queue_delay_microseconds: Vec<IgnoredAny>,
    /// Refused.
    #[schemars(skip)]
    pub instances: Vec<IgnoredAny>,
    /// Refused.
    #[schemars(skip)]
    pub instance_group: Vec<IgnoredAny>,
    /// Refused.
    #[schemars(skip)]
    pub priority_levels: Vec<IgnoredAny>,
    /// Refused.
    #[schemars(skip)]
    pub default_priority_level: Vec<IgnoredAny>,
    /// Refused.
    #[schemars(skip)]
    pub default_timeout_microseconds: Vec<IgnoredAny>,
    /// Refused.
    #[schemars(skip)]
    pub max_queue_size: Vec<IgnoredAny>,
}

impl Default for LlmOptions {
    fn default() -> Self {
        Self {
            models_path: String::new(),
            max_num_batched_tokens: 256,
            cache_size: 0,
            max_num_seqs: 256,
            dynamic_split_fuse: true,
            device: String::new(),
            num_assistant_tokens: SpeculationParams::default().num_assistant_tokens,
            max_ngram_size: 3,
            plugin_config: String::new(),
            best_of_limit: 20,
            max_tokens_limit: 0,
            enable_prefix_caching: true,
            prefix_cache_size: None,
            checkpoint_cache_size: None,
            max_context: 0,
            max_waiting: 1024,
            max_queued_prompt_tokens: 0,
            queue_timeout_ms: 600_000,
            target_step_ms: 0,
            priority_aging_ms: 10_000,
            step_timeout: DEFAULT_STEP_TIMEOUT,
            max_engine_restarts: MAX_RESTARTS,
            min_priority: -10,
            max_priority: 10,
            chat_template_file: String::new(),
            pipeline_type: PipelineType::Auto,
            chat_template_mode: ChatTemplateMode::Jinja,
            draft_models_path: String::new(),
            draft_device: String::new(),
            draft_max_num_batched_tokens: None,
            draft_cache_size: None,
            mmproj: String::new(),
            image_cache_size: None,
            max_images: ImageLimits::default().count,
            max_image_bytes: ImageLimits::default().bytes,
            max_image_pixels: ImageLimits::default().pixels,
            max_sounds: SoundLimits::default().count,
            max_sound_bytes: SoundLimits::default().bytes,
            max_sound_seconds: SoundLimits::default().seconds,
            lora_adapters: Vec::new(),
            draft_block_size: None,
            draft_max_num_seqs: None,
            draft_dynamic_split_fuse: None,
            draft_eagle3_mode: false,
            cache_eviction_config: None,
            sparse_attention_config: None,
            cache_interval_multiplier: None,
            tool_parser: String::new(),
            reasoning_parser: String::new(),
            enable_tool_guided_generation: false,
            dynamic_batching: Vec::new(),
            max_batch_size: Vec::new(),
            preferred_batch_size: Vec::new(),
            max_queue_delay_microseconds: Vec::new(),
            instances: Vec::new(),
            instance_group: Vec::new(),
            priority_levels: Vec::new(),
            default_priority_level: Vec::new(),
            default_timeout_microseconds: Vec::new(),
            max_queue_size: Vec::new(),
        }
    }
}

/// A LoRA adapter of the model.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoraAdapter {
    /// Its name, without colons; that of its file, without the ending, when empty.
    pub name: String,
    /// A `.gguf` file, relative to the graph's folder. Required.
    pub path: String,
    /// How much of it is applied; 1, as it was trained, when not set.
    pub scale: Option<f32>,
}

/// What kind of model a graph expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum PipelineType {
    /// Text.
    Lm,
    /// Text and images.
    Vlm,
    /// Text, with continuous batching.
    #[serde(rename = "LM_CB")]
    LmCb,
    /// Text and images, with continuous batching.
    #[serde(rename = "VLM_CB")]
    VlmCb,
    /// Text, images and sound.
    Omni,
    /// Whatever the model is.
    #[default]
    Auto,
}

/// Which program renders chat templates elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ChatTemplateMode {
    /// A renderer in C++.
    Minja,
    /// Python's jinja2.
    #[default]
    Jinja,
}

/// Which cells of a long sequence would be given up. Read, so that graphs that have it compile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CacheEvictionConfig {
    pub aggregation_mode: String,
    pub start_size: u64,
    pub recent_size: u64,
    pub max_cache_size: u64,
    pub apply_rotation: bool,
    pub snapkv_window_size: u64,
    pub kv_crush_config: Option<KvCrushConfig>,
}

/// A part of [`CacheEvictionConfig`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KvCrushConfig {
    pub budget: u64,
    pub anchor_point_mode: String,
    pub rng_seed: u64,
}

/// Which cells attention would leave out. Read, so that graphs that have it compile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SparseAttentionConfig {
    pub mode: String,
    pub num_last_dense_tokens_in_prefill: u64,
    pub num_retained_start_tokens_in_cache: u64,
    pub num_retained_recent_tokens_in_cache: u64,
    pub xattention_threshold: f64,
    pub xattention_block_size: u64,
    pub xattention_stride: u64,
}
