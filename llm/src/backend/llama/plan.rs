//! The numbers a context is created with: cells, sequences, threads.

use llama_cpp_2::model::LlamaModel;
use llama_cpp_sys_2 as sys;

use super::ffi::{self, Context};
use super::threads;
use crate::memory::{self, Bound, CacheRequest};
use crate::protocol::LoadError;
use crate::spec::{Device, EngineSpec, FlashAttention, KvType};

/// Sequences that llama.cpp can tell apart in one cache.
const MAX_SEQUENCES: u32 = 256;
/// llama.cpp allocates cells in multiples of this.
const CELL_GRAIN: u32 = 256;
/// Tokens computed at once inside a step, unless the spec says otherwise.
const DEFAULT_UBATCH: u32 = 512;

/// The numbers a context is created with.
pub(super) struct ContextPlan {
    pub(super) cells: u32,
    pub(super) context_length: u32,
    pub(super) max_sequences: u32,
    pub(super) ubatch: u32,
    pub(super) threads: u32,
    pub(super) batch_threads: u32,
    pub(super) unified: bool,
}

impl ContextPlan {
    pub(super) fn new(spec: &EngineSpec, model: &LlamaModel) -> Result<Self, LoadError> {
        let knobs = &spec.plugin_config;
        let max_sequences = spec.max_num_seqs.min(MAX_SEQUENCES);
        if max_sequences < spec.max_num_seqs {
            tracing::warn!(
                max_num_seqs = spec.max_num_seqs,
                effective = max_sequences,
                "llama.cpp batches at most 256 sequences"
            );
        }
        let context_length = spec
            .max_context
            .unwrap_or_else(|| model.n_ctx_train())
            .max(1);
        let request = CacheRequest {
            ceiling_gb: spec.cache_size,
            bytes_per_cell: bytes_per_cell(model, knobs.kv_type_k, knobs.kv_type_v),
            context: context_length,
            max_sequences,
            available_bytes: memory::available_bytes(),
        };
        let size = memory::cache_size(&request);
        tracing::info!(
            cache_size_gb = request.ceiling_gb,
            bytes_per_cell = request.bytes_per_cell,
            context = request.context,
            max_sequences = request.max_sequences,
            available_bytes = request.available_bytes,
            cells = size.cells,
            bytes = u64::from(size.cells) * request.bytes_per_cell,
            "the KV cache is bounded by {}",
            size.bound,
        );
        let whole_contexts = size.bound == Bound::Sequences;
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
                "leaves {} KV cells of {} bytes, bounded by {}, fewer than {CELL_GRAIN}{}",
                size.cells,
                request.bytes_per_cell,
                size.bound,
                if unified { "" } else { " for each sequence" },
            );
            return Err(LoadError::Spec {
                field: "cache_size",
                message,
            });
        }
        let share = share / CELL_GRAIN * CELL_GRAIN;
        let threads = knobs.threads.unwrap_or_else(threads::default_threads);
        Ok(Self {
            cells: if unified {
                share
            } else {
                share * max_sequences
            },
            context_length,
            max_sequences,
            ubatch: knobs
                .ubatch
                .unwrap_or(DEFAULT_UBATCH)
                .min(spec.max_num_batched_tokens),
            threads,
            batch_threads: knobs.batch_threads.unwrap_or(threads),
            unified,
        })
    }

    pub(super) fn create<'a>(
        &self,
        spec: &EngineSpec,
        model: &'a LlamaModel,
    ) -> Result<Context<'a>, LoadError> {
        let knobs = &spec.plugin_config;
        let on_cpu = spec.device == Device::Cpu;
        let mut params = ffi::context_params();
        params.n_ctx = self.cells;
        // llama.cpp wants room for one output of every sequence; the scheduler keeps to the spec's limit.
        params.n_batch = spec.max_num_batched_tokens.max(self.max_sequences);
        params.n_ubatch = self.ubatch;
        params.n_seq_max = self.max_sequences;
        params.n_threads = self.threads as i32;
        params.n_threads_batch = self.batch_threads as i32;
        params.flash_attn_type = match knobs.flash_attention {
            FlashAttention::Auto => sys::LLAMA_FLASH_ATTN_TYPE_AUTO,
            FlashAttention::On => sys::LLAMA_FLASH_ATTN_TYPE_ENABLED,
            FlashAttention::Off => sys::LLAMA_FLASH_ATTN_TYPE_DISABLED,
        };
        params.type_k = cache_type(knobs.kv_type_k);
        params.type_v = cache_type(knobs.kv_type_v);
        params.kv_unified = self.unified;
        params.offload_kqv = !on_cpu;
        params.op_offload = !on_cpu;
        params.no_perf = true;
        let (context, complaints) = ffi::collect_errors(|| Context::new(model, params));
        context.ok_or_else(|| LoadError::Model {
            path: spec.model.clone(),
            message: complaints
                .unwrap_or_else(|| "llama.cpp cannot create a context on it".to_owned()),
        })
    }
}

/// Bytes of the keys and values of one token over all layers.
fn bytes_per_cell(model: &LlamaModel, type_k: KvType, type_v: KvType) -> u64 {
    let heads = u64::from(model.n_head_kv().max(1));
    let default_length = model.n_embd().max(1) as u64 / u64::from(model.n_head().max(1));
    let architecture = model
        .meta_val_str("general.architecture")
        .unwrap_or_default();
    let length = |name: &str| {
        let value = model.meta_val_str(&format!("{architecture}.attention.{name}_length"));
        value
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default_length)
    };
    let bytes = |numbers: u64, number_type: KvType| {
        let (bytes, numbers_in_block) = number_type.block();
        (numbers * bytes).div_ceil(numbers_in_block)
    };
    u64::from(model.n_layer())
        * (bytes(heads * length("key"), type_k) + bytes(heads * length("value"), type_v))
}

fn cache_type(number_type: KvType) -> sys::ggml_type {
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
