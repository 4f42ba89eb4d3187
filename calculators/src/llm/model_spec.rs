//! The spec of a model, and the conversion of a node's options to it.

use std::path::PathBuf;

use graphmill_engine::Contract;
use graphmill_llm::settings::bytes_of_gb;
use graphmill_llm::{
    AdapterSpec, Device, DraftSource, DraftSpec, LlmEngineSpec, Number, PluginConfig, SpecError,
    SpeculationParams, SubmitError, VisionSpec,
};

use super::media::{ImageLimits, MediaLimits, SoundLimits};
use super::options::{LlmNodeOptions, LlmOptions, LoraAdapter, PipelineType};
use crate::text::{reasoning, tool_calls};

/// Value of `mmproj` for a model without its projector.
const NO_PROJECTOR: &str = "none";

/// The files and limits from which a [`LanguageModel`](super::LanguageModel) is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelSpec {
    /// Engine and model file. Before the spec is resolved, its path is the one in the graph.
    pub engine: LlmEngineSpec,
    /// Chat template file that replaces the model's own.
    pub chat_template: Option<PathBuf>,
    /// File of sampling defaults that replaces the one beside the model, relative to its folder.
    pub generation_config: Option<PathBuf>,
    /// Name of the format of tool calls. If it is empty, the format is detected in the chat
    /// template.
    pub tool_parser: String,
    /// Name of the format of reasoning. If it is empty, the format is detected in the chat
    /// template.
    pub reasoning_parser: String,
    /// True if tool calls are constrained to their format even if the request does not demand any.
    pub guided_tool_calls: bool,
    /// True if a projector beside the model is loaded with it although none is named.
    pub finds_projector: bool,
    /// True if the graph needs a projector.
    pub needs_projector: bool,
    /// Maximum number of bytes of cached images and sounds, with such a projector.
    pub image_cache_size: u64,
    /// Limits of the images, sounds and vectors of a request.
    pub media: MediaLimits,
    /// Maximum number of tokens in a prompt; 0 is no limit.
    pub max_input_tokens: u32,
}

impl LlmOptions {
    /// Returns the spec of the model. Errors of the options go to `c`.
    pub(super) fn model_spec(&self, c: &mut Contract) -> ModelSpec {
        let node = &self.node;
        if node.models_path.is_empty() {
            c.missing_option("models_path", "\"./\"");
        }
        self.batching.refuse(c);
        let cache_size = node.image_cache_size;
        let image_cache_size = cache_size.map_or(VisionSpec::CACHE_SIZE, bytes_of_gb);
        let mut engine = self.engine.spec(&node.models_path);
        engine.device = accepted(c, "device", node.device.parse::<Device>());
        let plugin_config = PluginConfig::from_json(&node.plugin_config);
        engine.plugin_config = accepted(c, "plugin_config", plugin_config);
        engine.draft = node.draft_spec(c, &engine);
        if !node.mmproj.is_empty() && node.mmproj != NO_PROJECTOR {
            engine.vision = Some(VisionSpec {
                cache_size: image_cache_size,
                ..VisionSpec::new(&node.mmproj)
            });
        }
        let adapters = node.lora_adapters.iter();
        engine.adapters = adapters.filter_map(|adapter| adapter.spec(c)).collect();
        if !node.models_path.is_empty()
            && let Err(error) = engine.validate()
        {
            match &error {
                SpecError::OutOfRange { field, .. } => c.option_error(field, error.to_string()),
                _ => c.error(error.to_string()),
            }
        }
        let speculation = SpeculationParams {
            num_assistant_tokens: node.num_assistant_tokens,
            source: DraftSource::Text {
                max_ngram_size: node.max_ngram_size,
            },
        };
        if let Err(SubmitError::InvalidParameter { field, message }) = speculation.validate() {
            c.option_error(field, format!("`{field}` {message}"));
        }
        if let Err(message) = tool_calls::FORMATS.named(&node.tool_parser) {
            c.option_error("tool_parser", message);
        }
        if let Err(message) = reasoning::FORMATS.named(&node.reasoning_parser) {
            c.option_error("reasoning_parser", message);
        }
        let chat_template = Some(&node.chat_template_file).filter(|path| !path.is_empty());
        let config = Some(&node.generation_config_path).filter(|path| !path.is_empty());
        ModelSpec {
            engine,
            chat_template: chat_template.map(Into::into),
            generation_config: config.map(Into::into),
            tool_parser: node.tool_parser.clone(),
            reasoning_parser: node.reasoning_parser.clone(),
            guided_tool_calls: node.enable_tool_guided_generation,
            finds_projector: node.mmproj.is_empty(),
            needs_projector: matches!(
                node.pipeline_type,
                PipelineType::Vlm | PipelineType::VlmCb | PipelineType::Omni
            ),
            image_cache_size,
            media: MediaLimits {
                images: ImageLimits {
                    count: node.max_images,
                    bytes: node.max_image_bytes,
                    pixels: node.max_image_pixels,
                },
                sounds: SoundLimits {
                    count: node.max_sounds,
                    bytes: node.max_sound_bytes,
                    seconds: node.max_sound_seconds,
                },
                vectors: node.prompt_embeds,
            },
            max_input_tokens: node.max_input_tokens,
        }
    }
}

impl LlmNodeOptions {
    /// Returns the spec of the draft model.
    fn draft_spec(&self, c: &mut Contract, main: &LlmEngineSpec) -> Option<DraftSpec> {
        let tokens = self.draft_max_num_batched_tokens;
        let in_pieces = self.draft_dynamic_split_fuse;
        let given = [
            ("draft_device", !self.draft_device.is_empty()),
            ("draft_max_num_batched_tokens", tokens.is_some()),
            ("draft_cache_size", self.draft_cache_size.is_some()),
            ("draft_block_size", self.draft_block_size.is_some()),
            ("draft_max_num_seqs", self.draft_max_num_seqs.is_some()),
            ("draft_dynamic_split_fuse", in_pieces.is_some()),
            ("draft_eagle3_mode", self.draft_eagle3_mode),
        ];
        if self.draft_models_path.is_empty() {
            for (option, _) in given.iter().filter(|(_, given)| *given) {
                let message =
                    format!("`{option}` needs a draft model: name one as `draft_models_path`");
                c.option_error(option, message);
            }
            return None;
        }
        if in_pieces == Some(false) {
            let message = "`draft_dynamic_split_fuse` cannot be false: the draft model computes long texts in pieces";
            c.option_error("draft_dynamic_split_fuse", message);
        }
        let mut draft = DraftSpec::new(&self.draft_models_path, main);
        draft.eagle3 = self.draft_eagle3_mode;
        if !self.draft_device.is_empty() {
            draft.device = accepted(c, "draft_device", self.draft_device.parse::<Device>());
        }
        draft.max_num_batched_tokens = tokens.unwrap_or(draft.max_num_batched_tokens);
        draft.max_num_seqs = self.draft_max_num_seqs.unwrap_or(draft.max_num_seqs);
        draft.cache_size = self.draft_cache_size.unwrap_or(draft.cache_size);
        Some(draft)
    }

    /// Logs the given options that have no effect.
    pub(super) fn warn_of_ignored(&self) {
        let ignored = [
            (
                "draft_block_size",
                self.draft_block_size.is_some(),
                "cells are not kept in blocks",
            ),
            (
                "cache_eviction_config",
                self.cache_eviction_config.is_some(),
                "no cells of a live sequence are evicted",
            ),
            (
                "sparse_attention_config",
                self.sparse_attention_config.is_some(),
                "attention is always exact",
            ),
            (
                "cache_interval_multiplier",
                self.cache_interval_multiplier.is_some(),
                "llama.cpp keeps the whole state",
            ),
        ];
        for (option, _, effect) in ignored.iter().filter(|(_, given, _)| *given) {
            tracing::warn!(option, effect, "an option of the LLM node has no effect");
        }
    }
}

impl LoraAdapter {
    /// Returns the spec of the adapter. Errors go to `c`.
    fn spec(&self, c: &mut Contract) -> Option<AdapterSpec> {
        let path = PathBuf::from(&self.path);
        let Some(stem) = path.file_stem() else {
            let message = "`lora_adapters` needs the `path` of a `.gguf` file for each adapter";
            c.option_error("lora_adapters", message);
            return None;
        };
        let name = if self.name.is_empty() {
            stem.to_string_lossy().into_owned()
        } else {
            self.name.clone()
        };
        let Some(scale) = Number::new(self.scale.unwrap_or(1.0)) else {
            c.option_error("lora_adapters", "`scale` must be a finite number");
            return None;
        };
        Some(AdapterSpec { name, path, scale })
    }
}

/// Returns a value, or reports an error and returns the default.
fn accepted<T: Default>(c: &mut Contract, option: &str, value: Result<T, SpecError>) -> T {
    value.unwrap_or_else(|error| {
        c.option_error(option, error.to_string());
        T::default()
    })
}
