//! The spec of a trial: the same files and the options that affect results, with little memory.

use std::num::NonZero;
use std::thread;

use crate::settings::{CpuKernels, Device, DraftSpec, EmbeddingSpec, LlmEngineSpec, PluginConfig};

/// Maximum number of tokens of a sequence.
const CONTEXT: u32 = 256;
/// Maximum number of tokens of a step.
const BATCH: u32 = 8;
/// Maximum number of threads. More would hardly shorten a step, and each takes memory.
const MAX_THREADS: u64 = 8;
/// Size of weights per thread, in bytes. Synchronizing threads takes long if other programs
/// compute, too.
const BYTES_PER_THREAD: u64 = 128 << 20;

/// Makes the spec of a trial; `bytes` is the size of the files.
pub(super) fn engine(spec: &LlmEngineSpec, bytes: u64) -> LlmEngineSpec {
    LlmEngineSpec {
        backend: spec.backend,
        max_num_batched_tokens: BATCH,
        max_num_seqs: 1,
        max_context: Some(CONTEXT),
        prefix_caching: false,
        device: Device::Cpu,
        draft: spec.draft.as_ref().map(|draft| DraftSpec {
            device: Device::Cpu,
            max_num_batched_tokens: BATCH,
            max_num_seqs: 1,
            cache_size: 0,
            ..draft.clone()
        }),
        adapters: spec.adapters.clone(),
        vision: spec.vision.clone(),
        plugin_config: config(&spec.plugin_config, bytes),
        ..LlmEngineSpec::new(&spec.model)
    }
}

pub(super) fn embedding(spec: &EmbeddingSpec, bytes: u64) -> EmbeddingSpec {
    EmbeddingSpec {
        max_num_batched_tokens: BATCH,
        max_context: Some(spec.max_context.map_or(BATCH, |context| context.min(BATCH))),
        device: Device::Cpu,
        plugin_config: config(&spec.plugin_config, bytes),
        ..EmbeddingSpec::new(&spec.model, spec.task)
    }
}

/// Changes the configuration so that weights stay in the file, neither copied nor packed.
fn config(config: &PluginConfig, bytes: u64) -> PluginConfig {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let most = MAX_THREADS.min(processors as u64);
    let threads = (bytes / BYTES_PER_THREAD).clamp(1, most);
    PluginConfig {
        threads: Some(threads as u32),
        cpu_strict: Some(false),
        cpu_kernels: CpuKernels::Off,
        huge_pages: Some(false),
        flash_attention: config.flash_attention,
        kv_type_k: config.kv_type_k,
        kv_type_v: config.kv_type_v,
        kv_unified: config.kv_unified,
        swa_full: config.swa_full,
        mtp: config.mtp,
        rope_scaling: config.rope_scaling,
        rope_freq_base: config.rope_freq_base,
        rope_freq_scale: config.rope_freq_scale,
        yarn_ext_factor: config.yarn_ext_factor,
        yarn_attn_factor: config.yarn_attn_factor,
        yarn_beta_fast: config.yarn_beta_fast,
        yarn_beta_slow: config.yarn_beta_slow,
        yarn_orig_ctx: config.yarn_orig_ctx,
        ..PluginConfig::default()
    }
}
