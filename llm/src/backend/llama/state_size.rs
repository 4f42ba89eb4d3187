//! Memory of a sequence in a model with recurrent layers. The layers and the sizes of their states
//! differ by architecture and file. llama.cpp reports them when it creates a context, so a small
//! one is created and dropped.

use super::ffi;
use super::log_lines;
use super::model::Weights;
use super::plan::{cache_type, context_params};
use crate::lock::lock;
use crate::memory::CELL_GRAIN;
use crate::settings::LlmEngineSpec;

/// Number of cells of that context. The log gives sizes in hundredths of a mebibyte.
const CELLS: u32 = 4 * CELL_GRAIN;

/// Sizes of the parts of a sequence, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SequenceBytes {
    /// One cell, over all layers that have cells; 0 if none has.
    pub(super) cell: u64,
    /// All states of a sequence, including those that it can go back to.
    pub(super) states: u64,
}

/// Measures the sizes. `None` for models without recurrent layers, and if llama.cpp refuses the
/// context; it will then refuse the real one, too.
pub(super) fn sequence_bytes(spec: &LlmEngineSpec, weights: &Weights) -> Option<SequenceBytes> {
    let model = &weights.model;
    if !model.has_states() {
        return None;
    }
    let knobs = &spec.plugin_config;
    let mut params = context_params(knobs, spec.device, knobs.flash_attention);
    params.n_ctx = CELLS;
    params.n_rs_seq = spec.rollback_states();
    params.n_batch = params.n_rs_seq + 2;
    params.n_ubatch = params.n_batch;
    params.n_seq_max = 1;
    params.n_threads = 1;
    params.n_threads_batch = 1;
    params.type_k = cache_type(knobs.kv_type_k);
    params.type_v = cache_type(knobs.kv_type_v);
    let creating = lock(&weights.layout.creating);
    let (created, heard) = ffi::listen(|| ffi::can_create_context(model, &params));
    drop(creating);
    created.then(|| SequenceBytes {
        cell: log_lines::buffer_bytes(&heard.lines, "KV").div_ceil(u64::from(CELLS)),
        states: log_lines::buffer_bytes(&heard.lines, "RS"),
    })
}
