//! Spec of a draft model.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Device, LlmEngineSpec, PluginConfig, SpecError, check_least};
#[cfg(feature = "llama")]
use crate::protocol::SpeculationParams;

/// The model that drafts tokens for another one, and its limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftSpec {
    /// The model file. Its vocabulary must be that of the main model.
    pub model: PathBuf,
    /// Device that computes the draft model.
    pub device: Device,
    /// Maximum number of tokens computed at once: beginnings of texts, and one token for each
    /// drafting sequence.
    pub max_num_batched_tokens: u32,
    /// Number of sequences with cells in its KV cache. With more drafting sequences, the least
    /// recently used is evicted and recomputed.
    pub max_num_seqs: u32,
    /// Maximum size of its KV cache in GB (2^30 bytes); 0 lets the engine choose.
    pub cache_size: u64,
    /// True if the model must be an EAGLE3 model. EAGLE3 models also work without it.
    pub eagle3: bool,
}

impl DraftSpec {
    /// Creates the spec of a model that drafts for `main`, with the same limits and device.
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
        let tokens = self.max_num_batched_tokens;
        check_least("draft_max_num_batched_tokens", tokens, 2)?;
        check_least("draft_max_num_seqs", self.max_num_seqs, 1)?;
        match main.plugin_config.drafter() {
            Some(knob) => Err(SpecError::out_of_range(
                knob,
                "sets the source of drafts, and so does `draft_models_path`: set only one",
            )),
            None => Ok(()),
        }
    }
}

impl LlmEngineSpec {
    /// Number of earlier states that each sequence of a hybrid model keeps.
    #[cfg(feature = "llama")]
    pub(crate) fn rollback_states(&self) -> u32 {
        let knobs = &self.plugin_config;
        knobs.rollback_states.unwrap_or_else(|| {
            if self.draft.is_some() || knobs.drafter().is_some() {
                SpeculationParams::default().num_assistant_tokens
            } else {
                0
            }
        })
    }

    /// Spec of the context of the MTP layers. They have no recurrent states, and adapters do not
    /// change them.
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

    /// Spec of the draft model on its own. Options of threads and of loading files are the main
    /// model's. Options of layers, tensors or positions concern the main model only.
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
            // Its cells are not kept for other sequences.
            prefix_caching: false,
            plugin_config,
            ..Self::new(&draft.model)
        })
    }
}
