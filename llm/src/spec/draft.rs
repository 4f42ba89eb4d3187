//! What a draft model is loaded from.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Device, LlmEngineSpec, PluginConfig, SpecError};
#[cfg(feature = "llama")]
use crate::protocol::SpeculationParams;

/// The model that drafts tokens for another one, and its limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftSpec {
    /// The model file. Its vocabulary has to be that of the main model.
    pub model: PathBuf,
    /// Where it computes.
    pub device: Device,
    /// Most tokens that it computes at once: beginnings of texts, and one for each sequence that
    /// drafts.
    pub max_num_batched_tokens: u32,
    /// Sequences that have cells in its KV cache. Where more draft, those that have not drafted for
    /// longest are computed again.
    pub max_num_seqs: u32,
    /// Ceiling of its KV cache in GB (2^30 bytes); 0 lets the engine choose.
    pub cache_size: u64,
    /// Whether it has to be an EAGLE3 model. One that is needs no word.
    pub eagle3: bool,
}

impl DraftSpec {
    /// A model that drafts for that of `main`, with the same limits and on the same device.
    pub fn new(model: impl Into<PathBuf>, main: &LlmEngineSpec) -> Self {
        Self {
            model: model.into(),
            device: main.device,
            max_num_batched_tokens: main.max_num_batched_tokens,
            max_num_seqs: main.max_num_seqs,
            cache_size: main.cache_size,
            eagle3: false,
        }
    }

    pub(super) fn validate(&self, main: &LlmEngineSpec) -> Result<(), SpecError> {
        let wrong = |field, message| Err(SpecError::OutOfRange { field, message });
        for (field, value, least) in [
            (
                "draft_max_num_batched_tokens",
                self.max_num_batched_tokens,
                2,
            ),
            ("draft_max_num_seqs", self.max_num_seqs, 1),
        ] {
            if value < least {
                return wrong(field, format!("must be at least {least}, not {value}"));
            }
        }
        for (knob, given) in [
            ("prompt_lookup", main.plugin_config.prompt_lookup),
            ("mtp", main.plugin_config.mtp),
        ] {
            if given {
                return wrong(
                    knob,
                    "says where all requests take drafts from, and so does `draft_models_path`: choose one".to_owned(),
                );
            }
        }
        Ok(())
    }
}

impl LlmEngineSpec {
    /// Earlier states that each sequence of a hybrid model keeps.
    #[cfg(feature = "llama")]
    pub(crate) fn rollback_states(&self) -> u32 {
        let knobs = &self.plugin_config;
        let drafts = self.draft.is_some() || knobs.prompt_lookup || knobs.mtp;
        let unsaid = if drafts {
            SpeculationParams::default().num_assistant_tokens
        } else {
            0
        };
        knobs.rollback_states.unwrap_or(unsaid)
    }

    /// What the context of the model's MTP layers is made from: they have no recurrent states, and
    /// adapters do not change them.
    #[cfg(feature = "llama")]
    pub(crate) fn mtp_spec(&self) -> Self {
        Self {
            adapters: Vec::new(),
            plugin_config: PluginConfig {
                rollback_states: Some(0),
                ..self.plugin_config.clone()
            },
            ..self.clone()
        }
    }

    /// What the draft model is loaded from, as if it were alone. Knobs about threads and about how
    /// files are loaded are those of the main model; what a knob says of layers, tensors or
    /// positions concerns the main model only.
    pub(crate) fn draft_spec(&self) -> Option<Self> {
        let draft = self.draft.as_ref()?;
        let main = &self.plugin_config;
        let plugin_config = PluginConfig {
            threads: main.threads,
            batch_threads: main.batch_threads,
            cpu_affinity: main.cpu_affinity.clone(),
            cpu_strict: main.cpu_strict,
            thread_priority: main.thread_priority,
            numa: main.numa,
            ubatch: main.ubatch,
            flash_attention: main.flash_attention,
            kv_type_k: main.kv_type_k,
            kv_type_v: main.kv_type_v,
            kv_unified: main.kv_unified,
            swa_full: main.swa_full,
            mmap: main.mmap,
            mlock: main.mlock,
            ..PluginConfig::default()
        };
        Some(Self {
            max_num_batched_tokens: draft.max_num_batched_tokens,
            max_num_seqs: draft.max_num_seqs,
            cache_size: draft.cache_size,
            max_context: self.max_context,
            device: draft.device,
            // Its cells are not kept for others.
            prefix_caching: false,
            plugin_config,
            ..Self::new(&draft.model)
        })
    }
}
