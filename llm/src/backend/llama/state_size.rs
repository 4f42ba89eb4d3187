//! What a sequence takes of a model with recurrent layers. Which layers those are, and how large
//! their states, differs by architecture and file; llama.cpp tells it when it creates a context. So
//! a small one is created, and given up.

use super::ffi;
use super::log_lines;
use super::model::Weights;
use super::plan::{cache_type, flash_attention_type};
use crate::memory::CELL_GRAIN;
use crate::spec::{Device, LlmEngineSpec};

/// Cells of that context: sizes are told in hundredths of a mebibyte.
const CELLS: u32 = 4 * CELL_GRAIN;

/// Bytes that sequences take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SequenceBytes {
    /// Of a cell, over the layers that have cells; 0 if none has.
    pub(super) cell: u64,
    /// Of the states of a sequence, those that it can go back to included.
    pub(super) states: u64,
}

/// Measures them; `None` for models without recurrent layers, and where llama.cpp refuses, which
/// it will say again.
pub(super) fn sequence_bytes(spec: &LlmEngineSpec, weights: &Weights) -> Option<SequenceBytes> {
    let model = &weights.model;
    if !model.has_states() {
        return None;
    }
    let knobs = &spec.plugin_config;
    let mut params = ffi::default_context_params();
    params.n_ctx = CELLS;
    params.n_rs_seq = spec.rollback_states();
    params.n_batch = params.n_rs_seq + 2;
    params.n_ubatch = params.n_batch;
    params.n_seq_max = 1;
    params.n_threads = 1;
    params.n_threads_batch = 1;
    params.type_k = cache_type(knobs.kv_type_k);
    params.type_v = cache_type(knobs.kv_type_v);
    params.flash_attn_type = flash_attention_type(knobs.flash_attention);
    params.offload_kqv = knobs.offload_kqv.unwrap_or(spec.device != Device::Cpu);
    params.no_perf = true;
    let creating = weights.layout.lock();
    let (created, heard) = ffi::listen(|| ffi::can_create_context(model, &params));
    drop(creating);
    created.then(|| SequenceBytes {
        cell: log_lines::buffer_bytes(&heard.lines, "KV").div_ceil(u64::from(CELLS)),
        states: log_lines::buffer_bytes(&heard.lines, "RS"),
    })
}
