//! Parameters of a context: cells, sequences, threads.

use std::collections::HashMap;
use std::rc::Rc;

use llama_cpp_sys_2 as sys;

use super::adapters;
use super::cpu_kernels;
use super::device_memory::{self, Available, MACHINE, StepBuffers};
use super::ffi::{self, Context, Heard, HiddenOf, LoadedAdapter, Model, RawContext, ThreadPool};
use super::model::Weights;
use super::mtp;
use super::state_size::sequence_bytes;
use super::threads::Threads;
use crate::memory::{self, CELL_GRAIN, CacheLimit, CacheRequest, Pool};
use crate::model::info::Mebibytes;
use crate::protocol::LoadError;
use crate::settings::{
    Device, FlashAttention, KvType, LlmEngineSpec, Numa, Number, PluginConfig, RopeScaling,
};

/// Maximum number of sequences in one cache, a limit of llama.cpp.
pub(super) const MAX_SEQUENCES: u32 = 256;
/// Architectures with sparse attention that only llama.cpp's fused kernel computes.
const SPARSE_BY_FLASH: [&str; 1] = ["minimax-m3"];
/// Default number of tokens computed at once inside a step.
const DEFAULT_UBATCH: u32 = 512;
/// Maximum size of the scores of plain attention, in bytes. Beyond it, the fused kernel is used,
/// which keeps no scores.
pub(super) const MAX_SCORE_BYTES: u64 = 256 << 20;

/// Parameters that a context is created with.
#[derive(Clone)]
pub(super) struct ContextPlan<'a> {
    pub(super) cells: u32,
    pub(super) bytes_per_cell: u64,
    /// Bytes of the recurrent states of all sequences.
    pub(super) state_bytes: u64,
    pub(super) bound: CacheLimit,
    pub(super) context_length: u32,
    pub(super) max_sequences: u32,
    pub(super) batch_tokens: u32,
    pub(super) ubatch: u32,
    pub(super) unified: bool,
    /// True if it computes the model's MTP layers instead of the others.
    pub(super) mtp: bool,
    /// The hidden states that the context provides.
    pub(super) hidden: Option<HiddenOf>,
    /// The context of the main model, if this one drafts from its hidden states.
    pub(super) drafts_for: Option<Rc<RawContext<'a>>>,
    pub(super) flash_attention: FlashAttention,
    /// Bytes that attention reads for one token and one cell, if in a pass it reads as many cells
    /// of each sequence as the longest one has.
    pub(super) ragged_bytes: Option<u64>,
    pub(super) threads: Threads,
    /// Default host memory for the cells of finished sequences, in bytes.
    pub(super) prefix_bytes: u64,
    /// Bytes that the model takes of each memory, weights included, by the memory's name.
    pub(super) takes: HashMap<String, u64>,
}

impl<'a> ContextPlan<'a> {
    pub(super) fn new(
        spec: &LlmEngineSpec,
        weights: &Weights,
        available: &Available,
        numa: Numa,
    ) -> Result<Self, LoadError> {
        let knobs = &spec.plugin_config;
        let model = &weights.model;
        let max_sequences = spec.max_num_seqs.min(MAX_SEQUENCES);
        if max_sequences < spec.max_num_seqs {
            tracing::warn!(
                max_num_seqs = spec.max_num_seqs,
                effective = max_sequences,
                "llama.cpp batches at most 256 sequences"
            );
        }
        let trained = model.trained_context();
        let context_length = spec.max_context.unwrap_or(trained).max(1);
        let batch_tokens = spec.max_num_batched_tokens.max(max_sequences);
        let ubatch = ubatch(spec);
        let measured = sequence_bytes(spec, weights);
        let bytes_per_cell = measured
            .map(|measured| measured.cell)
            .filter(|bytes| *bytes > 0)
            .unwrap_or_else(|| {
                device_memory::bytes_per_cell(model, knobs.kv_type_k, knobs.kv_type_v)
            });
        let states = measured.map_or(0, |measured| measured.states);
        let state_bytes = states.saturating_mul(u64::from(max_sequences));
        // Each cell of the model has a cell of the MTP layers beside it.
        let bytes_with_mtp = bytes_per_cell + mtp::bytes_per_cell(spec, weights);
        let request = CacheRequest {
            ceiling_gb: spec.cache_size,
            bytes_per_cell: bytes_with_mtp,
            context: context_length,
            context_required: spec.max_context.is_some(),
            max_sequences,
            streams: knobs.kv_unified.map(|unified| !unified),
            pools: device_memory::pools(
                weights,
                available,
                spec,
                &StepBuffers::new(model, spec, ubatch, max_sequences),
                state_bytes,
            ),
        };
        let size = memory::cache_size(&request)
            .map_err(|message| LoadError::memory(&spec.model, message))?;
        let whole_contexts = size.bound == CacheLimit::Sequences;
        let unified = knobs.kv_unified.unwrap_or(!whole_contexts);
        let share = if unified {
            size.cells
        } else if whole_contexts {
            context_length.next_multiple_of(CELL_GRAIN)
        } else {
            size.cells / max_sequences
        };
        if share < CELL_GRAIN {
            let message = format!(
                "leaves {} KV cells of {bytes_per_cell} bytes, bounded by {}, fewer than {CELL_GRAIN}{}",
                size.cells,
                size.bound,
                if unified { "" } else { " for each sequence" },
            );
            return Err(LoadError::spec("cache_size", message));
        }
        let share = share / CELL_GRAIN * CELL_GRAIN;
        let cells = share * if unified { 1 } else { max_sequences };
        let machine = request.pools.iter().find(|pool| pool.name == MACHINE);
        let left = machine.and_then(|pool| pool.left(u64::from(cells), bytes_with_mtp));
        let takes = |pool: Pool| {
            let bytes = pool.bytes(u64::from(cells), bytes_with_mtp);
            (pool.name, bytes)
        };
        let on_cpu_in_streams = on_cpu_in_streams(weights, available, unified);
        let plain = on_cpu_in_streams && !kernels_attend(weights, knobs.kv_type_k, knobs.kv_type_v);
        let sparse = SPARSE_BY_FLASH.contains(&model.architecture().as_str());
        let scores = u64::from(share) * u64::from(ubatch) * u64::from(model.n_head());
        let most = left.unwrap_or(u64::MAX).min(MAX_SCORE_BYTES);
        let scores_fit = scores * size_of::<f32>() as u64 <= most;
        let flash_attention = match knobs.flash_attention {
            FlashAttention::Auto if sparse => FlashAttention::On,
            FlashAttention::Auto if plain && scores_fit && !knobs.kv_type_v.is_quantized() => {
                FlashAttention::Off
            }
            chosen => chosen,
        };
        let queries_per_key = u64::from(model.n_head() / model.n_head_kv().max(1)).max(1);
        if share < context_length {
            tracing::warn!(
                context = context_length,
                effective = share,
                "the KV cache is smaller than a whole context, bounded by {}",
                size.bound
            );
        }
        Ok(Self {
            cells,
            bytes_per_cell,
            state_bytes,
            bound: size.bound,
            context_length,
            max_sequences,
            batch_tokens,
            ubatch,
            unified,
            mtp: false,
            hidden: knobs.mtp.then_some(HiddenOf::Model),
            drafts_for: None,
            flash_attention,
            ragged_bytes: (on_cpu_in_streams && flash_attention == FlashAttention::Off)
                .then_some(bytes_per_cell * queries_per_key),
            threads: Threads::new(knobs, spec.device, numa)?,
            prefix_bytes: memory::default_prefix_bytes(left.unwrap_or(0)),
            takes: request.pools.into_iter().map(takes).collect(),
        })
    }

    /// Returns the plan of a context that computes the MTP layers beside `main`, whose plan this
    /// is. It has as many cells, and all sequences share them.
    pub(super) fn for_mtp(
        &self,
        spec: &LlmEngineSpec,
        main: &Context<'a>,
        bytes_per_cell: u64,
    ) -> Self {
        Self {
            drafts_for: Some(main.raw()),
            bytes_per_cell,
            state_bytes: 0,
            unified: true,
            mtp: true,
            flash_attention: spec.plugin_config.flash_attention,
            ragged_bytes: None,
            prefix_bytes: 0,
            takes: HashMap::new(),
            ..self.clone()
        }
    }

    /// Creates the context. Also returns the log of llama.cpp.
    pub(super) fn create(
        &self,
        spec: &LlmEngineSpec,
        weights: &'a Weights,
    ) -> Result<(Context<'a>, Heard), LoadError> {
        let refused = |message: String| LoadError::model(&spec.model, message);
        let (main, adapters) = (self.drafts_for.clone(), adapters::load(spec, weights)?);
        let size = Mebibytes(u64::from(self.cells) * self.bytes_per_cell);
        let what = format!("a context with {size} of KV cache");
        let params = self.params(spec);
        let created = create_context(weights, &self.threads, params, main, adapters, &what);
        let (mut context, heard) = created.map_err(refused)?;
        if let Some(hidden) = &self.hidden {
            context.give_hidden(hidden.clone()).map_err(refused)?;
        }
        Ok((context, heard))
    }

    fn params(&self, spec: &LlmEngineSpec) -> sys::llama_context_params {
        let knobs = &spec.plugin_config;
        let mut params = context_params(knobs, spec.device, self.flash_attention);
        params.n_ctx = self.cells;
        // llama.cpp requires room for one output of every sequence; the scheduler keeps to the
        // limit of the spec.
        params.n_batch = self.batch_tokens;
        params.n_ubatch = self.ubatch;
        params.n_seq_max = self.max_sequences;
        params.n_threads = self.threads.decode as i32;
        params.n_threads_batch = self.threads.batch as i32;
        params.type_k = cache_type(knobs.kv_type_k);
        params.type_v = cache_type(knobs.kv_type_v);
        params.kv_unified = self.unified;
        // llama.cpp keeps no states if the architecture cannot go back. It needs the states of a
        // step in one computation, with room for one more token.
        params.n_rs_seq = spec.rollback_states().min(self.ubatch.saturating_sub(2));
        if self.mtp {
            params.ctx_type = sys::LLAMA_CONTEXT_TYPE_MTP;
        }
        params.swa_full = knobs.swa_full.unwrap_or(true);
        params
    }
}

/// Returns the number of tokens computed at once inside a step.
pub(super) fn ubatch(spec: &LlmEngineSpec) -> u32 {
    let ubatch = spec.plugin_config.ubatch.unwrap_or(DEFAULT_UBATCH);
    ubatch.min(spec.max_num_batched_tokens)
}

/// Returns true if the KV cache is per sequence and no GPU holds layers. In this case llama.cpp's
/// fused kernel takes 1.5 to 2 times as long to decode as its plain attention, and plain attention
/// takes a third longer for prompts.
fn on_cpu_in_streams(weights: &Weights, available: &Available, unified: bool) -> bool {
    let on_gpu = |(device, layers): &(String, u32)| *layers > 0 && available.is_gpu(device);
    !unified && !weights.layout.layers.iter().any(on_gpu)
}

/// Returns true if the CPU kernels compute attention. They are faster than both of llama.cpp's
/// ways. They replace the fused kernel for queries from packed weights: if most matrices are
/// packed, those of queries are.
pub(super) fn kernels_attend(weights: &Weights, type_k: KvType, type_v: KvType) -> bool {
    let packed = weights.layout.packed.as_ref();
    packed.is_some_and(|packed| packed.info.matrices > packed.info.left.values().sum())
        && cpu_kernels::attends(cache_type(type_k), cache_type(type_v))
        && !has_linear_biases(&weights.model)
}

/// Returns true if attention scores depend on distances directly (`ALiBi`); the CPU kernels leave
/// these to llama.cpp. Some architectures always do, others if the file says so.
fn has_linear_biases(model: &Model) -> bool {
    let architecture = model.architecture();
    match architecture.as_str() {
        "bloom" | "jina-bert-v2" | "refact" => true,
        // The larger of the two models of this architecture.
        "baichuan" => model.n_layer() == 40,
        _ => {
            let largest = model.number("attention.max_alibi_bias");
            largest.is_some_and(|largest: f32| largest > 0.0)
        }
    }
}

/// Creates a context on these threads, for a draft model with the context `main` of its main model.
/// Also returns the log of llama.cpp. The error names `what` was to be created.
pub(super) fn create_context<'a>(
    weights: &'a Weights,
    threads: &Threads,
    params: sys::llama_context_params,
    main: Option<Rc<RawContext<'a>>>,
    adapters: Vec<LoadedAdapter<'a>>,
    what: &str,
) -> Result<(Context<'a>, Heard), String> {
    let threads = ThreadPool::new(threads).ok_or("llama.cpp cannot start its threads")?;
    let (model, layout) = (&*weights.model, &*weights.layout);
    let (mappings, creating) = (&layout.mappings, &layout.creating);
    let (context, heard) =
        ffi::listen(|| Context::new(model, params, main, threads, adapters, mappings, creating));
    match context {
        Some(context) => Ok((context, heard)),
        None => Err(heard.complaint_or(&format!("llama.cpp cannot create {what} on it"))),
    }
}

/// Returns the parameters that all kinds of contexts take from the knobs. Without a knob for rotary
/// positions, llama.cpp uses the value of the model.
pub(super) fn context_params(
    knobs: &PluginConfig,
    device: Device,
    flash_attention: FlashAttention,
) -> sys::llama_context_params {
    let on_cpu = device == Device::Cpu;
    let mut params = ffi::default_context_params();
    params.flash_attn_type = match flash_attention {
        FlashAttention::Auto => sys::LLAMA_FLASH_ATTN_TYPE_AUTO,
        FlashAttention::On => sys::LLAMA_FLASH_ATTN_TYPE_ENABLED,
        FlashAttention::Off => sys::LLAMA_FLASH_ATTN_TYPE_DISABLED,
    };
    params.offload_kqv = knobs.offload_kqv.unwrap_or(!on_cpu);
    params.op_offload = knobs.op_offload.unwrap_or(!on_cpu);
    params.no_perf = true;
    if let Some(scaling) = knobs.rope_scaling {
        params.rope_scaling_type = match scaling {
            RopeScaling::None => sys::LLAMA_ROPE_SCALING_TYPE_NONE,
            RopeScaling::Linear => sys::LLAMA_ROPE_SCALING_TYPE_LINEAR,
            RopeScaling::Yarn => sys::LLAMA_ROPE_SCALING_TYPE_YARN,
            RopeScaling::Longrope => sys::LLAMA_ROPE_SCALING_TYPE_LONGROPE,
        };
    }
    let set = |field: &mut f32, value: Option<Number>| {
        if let Some(value) = value {
            *field = value.get();
        }
    };
    set(&mut params.rope_freq_base, knobs.rope_freq_base);
    set(&mut params.rope_freq_scale, knobs.rope_freq_scale);
    set(&mut params.yarn_ext_factor, knobs.yarn_ext_factor);
    set(&mut params.yarn_attn_factor, knobs.yarn_attn_factor);
    set(&mut params.yarn_beta_fast, knobs.yarn_beta_fast);
    set(&mut params.yarn_beta_slow, knobs.yarn_beta_slow);
    if let Some(context) = knobs.yarn_orig_ctx {
        params.yarn_orig_ctx = context;
    }
    params
}

/// Returns ggml's constant for a type.
pub(super) fn cache_type(number_type: KvType) -> sys::ggml_type {
    match number_type {
        KvType::F32 => sys::GGML_TYPE_F32,
        KvType::F16 => sys::GGML_TYPE_F16,
        KvType::Bf16 => sys::GGML_TYPE_BF16,
        KvType::Q8_0 => sys::GGML_TYPE_Q8_0,
        KvType::Q5_1 => sys::GGML_TYPE_Q5_1,
        KvType::Q5_0 => sys::GGML_TYPE_Q5_0,
        KvType::Q4_1 => sys::GGML_TYPE_Q4_1,
        KvType::Q4_0 => sys::GGML_TYPE_Q4_0,
    }
}
