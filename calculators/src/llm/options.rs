//! `LLMCalculatorOptions`: the options of OVMS graphs, field by field.
//!
//! A field either has the same meaning here, or is refused because ignoring it would give wrong
//! answers, or is accepted with a warning that it has no effect.

use graphmill_llm::spec::{LlmEngineOptions, MAX_BATCHED_TOKENS, MAX_GB, MAX_SEQS};
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

/// Options of [`Llm`](super::Llm), in groups that one message has the fields of.
#[derive(Clone, Debug, Default, JsonSchema)]
pub struct LlmOptions {
    /// Group about the node and its requests.
    #[schemars(flatten)]
    pub node: LlmNodeOptions,
    /// Group about the engine.
    #[schemars(flatten)]
    pub engine: LlmEngineOptions,
    /// Group about batching as other servers do it, which is refused.
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

/// Declares options with those of their defaults that are not the default of their type.
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
    /// Options of a node that generates, and of its requests.
    pub struct LlmNodeOptions {
        /// Folder with one `.gguf` file beside projectors (`mmproj*.gguf`), or such a file;
        /// relative to the graph's folder. Required.
        pub models_path: String,
        /// `CPU`; `GPU` or `GPU.0` for the first GPU, `GPU.1` for the second; `AUTO` for all GPUs
        /// there are, or else the CPU.
        pub device: String,
        /// Maximum number of tokens drafted in a step, 1 to 32, for requests that draft and do not
        /// say.
        #[schemars(range(min = 1, max = SpeculationParams::MAX_DRAFTS))]
        pub num_assistant_tokens: u32 = SpeculationParams::default().num_assistant_tokens,
        /// Longest run of tokens that prompt lookup searches for, 1 to 8, for requests that draft
        /// and do not say.
        #[schemars(range(min = 1, max = 8))]
        pub max_ngram_size: u32 = 3,
        /// JSON object with the backend's knobs. Some properties of OpenVINO mean the same as a
        /// knob, others have no effect, which is logged; any other name is an error.
        #[schemars(extend("contentMediaType" = "application/json", "contentSchema" = schemars::schema_for!(PluginConfig)))]
        pub plugin_config: String,
        /// `n` of a request has to be below this.
        #[schemars(range(min = 1, max = 1_024))]
        pub best_of_limit: u32 = 20,
        /// Maximum number of tokens in a choice, which is also the limit of requests that name
        /// none, and of those that name more; 0 is without limit.
        pub max_tokens_limit: u32,
        /// Maximum number of tokens in a prompt, for requests with longer ones to be refused; 0 is
        /// without limit.
        pub max_input_tokens: u32,
        /// A Jinja file, relative to the graph's folder, that replaces the model's chat template.
        pub chat_template_file: String,
        /// Sampling defaults in the place of `generation_config.json` beside the model, relative to
        /// the folder of that.
        pub generation_config_path: String,
        /// `VLM`, `VLM_CB` and `OMNI` need a projector. Answers are text.
        pub pipeline_type: PipelineType,
        /// Both modes are rendered in the same way.
        pub chat_template_mode: ChatTemplateMode,
        /// Folder with one `.gguf` file, or such a file; relative to the graph's folder. A smaller
        /// model with the same vocabulary, which drafts tokens for all requests that do not say
        /// otherwise.
        pub draft_models_path: String,
        /// Device of the draft model; that of the model when empty.
        pub draft_device: String,
        /// Maximum number of tokens that the draft model computes at once; `max_num_batched_tokens`
        /// when not set.
        #[schemars(range(min = 2, max = MAX_BATCHED_TOKENS))]
        pub draft_max_num_batched_tokens: Option<u32>,
        /// Maximum size of the draft model's KV cache in GB; `cache_size` when not set.
        #[schemars(range(max = MAX_GB))]
        pub draft_cache_size: Option<u64>,
        /// The projector of a model that reads images or sounds: a `.gguf` file, relative to the
        /// graph's folder. When empty, the one file `mmproj*.gguf` in the model's folder, if there
        /// is one; `none` for a model that is to read text alone.
        pub mmproj: String,
        /// Maximum host memory in GB for images and sounds that were encoded, and need not be
        /// again; 0 keeps none, and 0.25 are kept when not set.
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
        /// Maximum length of a sound in seconds. Decoding a longer one stops there, and it is
        /// refused.
        #[schemars(range(max = 86_400))]
        pub max_sound_seconds: u32 = SoundLimits::default().seconds,
        /// Takes prompts that are vectors in the place of tokens: `prompt_embeds` of completions.
        /// Nodes that look at texts see nothing of such a prompt.
        pub prompt_embeds: bool,
        /// LoRA adapters that requests can choose, by `model: "graph:adapter"` or `model:
        /// "adapter"`. All compute side by side.
        pub lora_adapters: Vec<LoraAdapter>,
        /// Without effect: cells are not kept in blocks.
        pub draft_block_size: Option<u64>,
        /// Maximum number of sequences that the draft model keeps; `max_num_seqs` when not set.
        /// Where more draft, those that did not for longest are computed again.
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
        /// Format of tool calls: the name of a family of models, such as `hermes`, or `none` to
        /// leave them in the text; empty for what its chat template says.
        pub tool_parser: String,
        /// Format of reasoning: the name of a family of models, such as `think`, or `none` to leave
        /// it in the text; empty for what its chat template says.
        pub reasoning_parser: String,
        /// Holds calls of tools to their format and to the tools' schemas even where the request
        /// leaves it to the model whether to call. Formats that do not mark calls, such as plain
        /// JSON, are not held.
        pub enable_tool_guided_generation: bool,
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
    pub aggregation_mode: AggregationMode,
    pub start_size: u64,
    pub recent_size: u64,
    pub max_cache_size: u64,
    pub apply_rotation: bool,
    pub snapkv_window_size: u64,
    pub kv_crush_config: Option<KvCrushConfig>,
}

/// Sums that would tell how important cells are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AggregationMode {
    Sum,
    #[default]
    NormSum,
}

/// A part of [`CacheEvictionConfig`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KvCrushConfig {
    pub budget: u64,
    pub anchor_point_mode: AnchorPointMode,
    pub rng_seed: u64,
}

/// Cells that others would be compared with.
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

/// Which cells attention would leave out. Read, so that graphs that have it compile.
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
