//! `LLMCalculatorOptions`: the options of OVMS graphs, field by field.
//!
//! A field has the same meaning here, or is refused because ignoring it would give wrong answers,
//! or is accepted with a warning that it has no effect.

use graphmill_llm::settings::{LlmEngineOptions, MAX_BATCHED_TOKENS, MAX_GB, MAX_SEQS};
use graphmill_llm::{PluginConfig, SpeculationParams};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::batching::BatchingOptions;
use super::media::{ImageLimits, SoundLimits};

/// Maximum number of images or sounds in a request.
pub(crate) const MAX_MEDIA: u32 = 1_024;
/// Maximum size of an image or sound file, in bytes.
pub(crate) const MAX_MEDIUM_BYTES: u64 = 1 << 30;
/// Maximum number of pixels in an image.
pub(crate) const MAX_IMAGE_PIXELS: u64 = 1 << 28;

/// Options of an `LLMCalculator` node, in groups whose fields are those of one message.
#[derive(Clone, Debug, Default, JsonSchema)]
pub struct LlmOptions {
    /// Options that concern the node and its requests.
    #[schemars(flatten)]
    pub node: LlmNodeOptions,
    /// Options that concern the engine.
    #[schemars(flatten)]
    pub engine: LlmEngineOptions,
    /// Batching options of other servers, which are refused.
    #[schemars(flatten)]
    pub batching: BatchingOptions,
}

impl<'de> Deserialize<'de> for LlmOptions {
    fn deserialize<D: Deserializer<'de>>(options: D) -> Result<Self, D::Error> {
        let (node, engine, batching) = Deserialize::deserialize(options)?;
        Ok(Self {
            node,
            engine,
            batching,
        })
    }
}

/// Declares options, with defaults where they differ from the default of the type.
macro_rules! declare {
    ($(#[$about:meta])* pub struct $name:ident {
        $($(#[$meta:meta])* pub $option:ident: $type:ty $(= $default:expr)?,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$meta])* pub $option: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($option: declare!(@ $($default)?),)* }
            }
        }
    };
    (@) => { Default::default() };
    (@ $default:expr) => { $default };
}

declare! {
    /// Options of `LLMCalculator` that concern the node and its requests.
    pub struct LlmNodeOptions {
        /// Path of a `.gguf` file, or of a folder with one beside projectors (`mmproj*.gguf`),
        /// relative to the graph's folder. Required.
        pub models_path: String,
        /// Device that computes the model: `CPU`; `GPU` or `GPU.0` for the first GPU, `GPU.1` for
        /// the second; `AUTO` for all GPUs, or else the CPU. Default: `AUTO`.
        pub device: String,
        /// Maximum number of tokens drafted in a step, 1 to 32, for requests that draft without
        /// setting it.
        #[schemars(range(min = 1, max = SpeculationParams::MAX_DRAFTS))]
        pub num_assistant_tokens: u32 = SpeculationParams::default().num_assistant_tokens,
        /// Maximum number of consecutive tokens that prompt lookup searches for, 1 to 8, for
        /// requests that draft without setting it.
        #[schemars(range(min = 1, max = 8))]
        pub max_ngram_size: u32 = 3,
        /// JSON object with the backend's settings. Some properties of OpenVINO mean the same as a
        /// setting, and others have no effect, which is logged. Any other name is an error.
        #[schemars(extend("contentMediaType" = "application/json", "contentSchema" = schemars::schema_for!(PluginConfig)))]
        pub plugin_config: String,
        /// Limit of a request's `n`, which must be lower than this.
        #[schemars(range(min = 1, max = 1_024))]
        pub best_of_limit: u32 = 20,
        /// Maximum number of tokens in a choice. Requests without a number, or with a higher one,
        /// get this limit; 0 is no limit.
        pub max_tokens_limit: u32,
        /// Maximum number of tokens in a prompt. Requests with a longer one are refused; 0 is no
        /// limit.
        pub max_input_tokens: u32,
        /// Jinja file that replaces the model's chat template, relative to the graph's folder.
        pub chat_template_file: String,
        /// File of sampling defaults that replaces `generation_config.json` beside the model,
        /// relative to the model's folder.
        pub generation_config_path: String,
        /// Kind of the model. `VLM`, `VLM_CB` and `OMNI` need a projector. Answers are always text.
        pub pipeline_type: PipelineType,
        /// Renderer of chat templates. Both values have the same effect.
        pub chat_template_mode: ChatTemplateMode,
        /// Path of a `.gguf` file, or of a folder with one, relative to the graph's folder: a
        /// smaller model with the same vocabulary. It drafts tokens for all requests that do not
        /// turn drafting off.
        pub draft_models_path: String,
        /// Device of the draft model. Default: that of the model.
        pub draft_device: String,
        /// Maximum number of tokens that the draft model computes at once. Default:
        /// `max_num_batched_tokens`.
        #[schemars(range(min = 2, max = MAX_BATCHED_TOKENS))]
        pub draft_max_num_batched_tokens: Option<u32>,
        /// Maximum size of the draft model's KV cache in GB. Default: `cache_size`.
        #[schemars(range(max = MAX_GB))]
        pub draft_cache_size: Option<u64>,
        /// Projector of a model that reads images or sounds: a `.gguf` file, relative to the
        /// graph's folder. Default: the only file `mmproj*.gguf` in the model's folder, if there is
        /// one. `none` makes the model read only text.
        pub mmproj: String,
        /// Maximum host memory in GB for encoded images and sounds, which later requests can reuse.
        /// Default: 0.25. 0 keeps none.
        #[schemars(range(min = 0, max = MAX_GB))]
        pub image_cache_size: Option<f64>,
        /// Maximum number of images in a request.
        #[schemars(range(max = MAX_MEDIA))]
        pub max_images: u32 = ImageLimits::default().count,
        /// Maximum size of an image's file in bytes.
        #[schemars(range(max = MAX_MEDIUM_BYTES))]
        pub max_image_bytes: u64 = ImageLimits::default().bytes,
        /// Maximum number of pixels in an image, width times height. A larger one is refused before
        /// it is decoded.
        #[schemars(range(max = MAX_IMAGE_PIXELS))]
        pub max_image_pixels: u64 = ImageLimits::default().pixels,
        /// Maximum number of sounds in a request.
        #[schemars(range(max = MAX_MEDIA))]
        pub max_sounds: u32 = SoundLimits::default().count,
        /// Maximum size of a sound's file in bytes.
        #[schemars(range(max = MAX_MEDIUM_BYTES))]
        pub max_sound_bytes: u64 = SoundLimits::default().bytes,
        /// Maximum length of a sound in seconds. Longer ones are refused; their decoding stops at
        /// this limit.
        #[schemars(range(max = 86_400))]
        pub max_sound_seconds: u32 = SoundLimits::default().seconds,
        /// Accepts prompts given as vectors in place of tokens: `prompt_embeds` of completions. Nodes
        /// that read texts do not see such a prompt.
        pub prompt_embeds: bool,
        /// LoRA adapters that requests can choose, by `model: "graph:adapter"` or
        /// `model: "adapter"`. Requests with different adapters are computed together.
        pub lora_adapters: Vec<LoraAdapter>,
        /// No effect: cells are not kept in blocks.
        pub draft_block_size: Option<u64>,
        /// Maximum number of sequences in the draft model. Default: `max_num_seqs`. If more
        /// sequences draft, the least recently used ones are removed and computed again later.
        #[schemars(range(min = 1, max = MAX_SEQS))]
        pub draft_max_num_seqs: Option<u32>,
        /// `false` is refused, because the draft model always computes long texts in pieces.
        pub draft_dynamic_split_fuse: Option<bool>,
        /// Requires that `draft_models_path` names an EAGLE3 model, and refuses other models.
        /// EAGLE3 models are also recognized without this option.
        pub draft_eagle3_mode: bool,
        /// No effect: no cells of a live sequence are evicted.
        pub cache_eviction_config: Option<CacheEvictionConfig>,
        /// No effect: attention is always exact.
        pub sparse_attention_config: Option<SparseAttentionConfig>,
        /// No effect: llama.cpp keeps the whole state.
        pub cache_interval_multiplier: Option<u64>,
        /// Format of tool calls: the name of a family of models, such as `hermes`, or `none` to
        /// leave them in the text. Default: the format that the chat template shows.
        pub tool_parser: String,
        /// Format of reasoning: the name of a family of models, such as `think`, or `none` to leave
        /// it in the text. Default: the format that the chat template shows.
        pub reasoning_parser: String,
        /// Constrains tool calls to their format and to the tools' schemas even if the request does
        /// not demand any. Formats that do not mark calls, such as plain JSON, are not constrained.
        pub enable_tool_guided_generation: bool,
    }
}

/// A LoRA adapter of the model.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoraAdapter {
    /// Name of the adapter, without colons. Default: the name of its file without the extension.
    pub name: String,
    /// Path of a `.gguf` file, relative to the graph's folder. Required.
    pub path: String,
    /// Factor of the adapter's effect, from -10 to 10. Default: 1, as it was trained.
    pub scale: Option<f32>,
}

/// The kind of model that a graph expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PipelineType {
    /// Text only.
    Lm,
    /// Text and images. It needs a projector.
    Vlm,
    /// Text only, with continuous batching.
    LmCb,
    /// Text and images, with continuous batching. It needs a projector.
    VlmCb,
    /// Text, images and sound. It needs a projector.
    Omni,
    /// The kind that the model's files show.
    #[default]
    Auto,
}

/// The program that renders chat templates in OVMS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ChatTemplateMode {
    /// OVMS's renderer in C++. Same effect as `JINJA`.
    Minja,
    /// Python's jinja2. Templates are rendered as it would.
    #[default]
    Jinja,
}

/// Choice of cells of a long sequence to evict. It is read so that graphs with it compile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CacheEvictionConfig {
    pub aggregation_mode: AggregationMode,
    pub start_size: u64,
    pub recent_size: u64,
    pub max_cache_size: u64,
    pub apply_rotation: bool,
    pub snapkv_window_size: u64,
    pub kv_crush_config: Option<KvCrushConfig>,
}

/// Sums that would measure the importance of cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AggregationMode {
    Sum,
    #[default]
    NormSum,
}

/// Details of [`CacheEvictionConfig`], without effect.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KvCrushConfig {
    pub budget: u64,
    pub anchor_point_mode: AnchorPointMode,
    pub rng_seed: u64,
}

/// Cells with which others would be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum AnchorPointMode {
    #[default]
    Random,
    Zeros,
    Ones,
    Mean,
    Alternating,
}

/// Choice of cells that attention would skip. It is read so that graphs with it compile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SparseAttentionConfig {
    pub mode: SparseAttentionMode,
    pub num_last_dense_tokens_in_prefill: u64,
    pub num_retained_start_tokens_in_cache: u64,
    pub num_retained_recent_tokens_in_cache: u64,
    pub xattention_threshold: f64,
    pub xattention_block_size: u64,
    pub xattention_stride: u64,
}

/// Patterns of cells that attention would read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum SparseAttentionMode {
    #[default]
    Trishape,
    Xattention,
}
