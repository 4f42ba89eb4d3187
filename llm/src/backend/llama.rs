//! llama.cpp: loads a GGUF file, sizes the KV cache for this machine, and computes batches.
//!
//! The context borrows the weights and is used on one thread only, so [`open`] keeps both on its stack while the engine runs. The
//! weights and the vocabulary in them are immutable and shared with every session.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::model::params::LlamaModelParams;

use super::{Backend, BatchToken, Capacity, DecodeError, Serve, Slot};
use crate::protocol::LoadError;
use crate::spec::EngineSpec;
use crate::vocab::Vocab;

mod devices;
mod ffi;
mod model;
mod plan;
mod threads;
mod vocab;

use ffi::Context;
use plan::ContextPlan;
use vocab::LlamaVocabulary;

/// The process-wide state of llama.cpp, initialised on first use.
static LLAMA: LazyLock<Result<LlamaBackend, String>> = LazyLock::new(|| {
    ffi::route_logs();
    let backend = LlamaBackend::init().map_err(|error| error.to_string())?;
    tracing::info!(features = %ffi::system_info(), "llama.cpp");
    Ok(backend)
});

/// The initialised llama.cpp, for loading a model.
fn llama(model: &Path) -> Result<&'static LlamaBackend, LoadError> {
    LLAMA.as_ref().map_err(|message| LoadError::Model {
        path: model.to_owned(),
        message: message.clone(),
    })
}

/// Loads the model and runs `serve` with a context on it.
pub(super) fn open(spec: &EngineSpec, serve: &mut Serve<'_>) -> Result<(), LoadError> {
    let model = Arc::new(model::load(spec)?);
    let plan = ContextPlan::new(spec, &model)?;
    let context = plan.create(spec, &model)?;
    let cells_per_sequence = plan.context_length.min(if plan.unified {
        context.n_ctx()
    } else {
        context.n_ctx() / plan.max_sequences
    });
    let capacity = Capacity {
        total_cells: context.n_ctx(),
        cells_per_sequence,
        max_sequences: plan.max_sequences,
        max_batch_tokens: spec.max_num_batched_tokens.min(context.n_batch()),
    };
    tracing::info!(
        kv_cells = capacity.total_cells,
        context = capacity.cells_per_sequence,
        max_sequences = capacity.max_sequences,
        batch_tokens = capacity.max_batch_tokens,
        threads = plan.threads,
        batch_threads = plan.batch_threads,
        unified = plan.unified,
        "model `{}` is ready",
        spec.model.display(),
    );
    let vocab = LlamaVocabulary::new(Arc::clone(&model), &spec.model, cells_per_sequence as usize);
    let mut backend = LlamaCpp {
        context,
        capacity,
        unified: plan.unified,
    };
    serve(&mut backend, Arc::new(vocab));
    Ok(())
}

/// Loads only the vocabulary of a model.
pub(super) fn open_vocab(path: &Path) -> Result<Arc<dyn Vocab>, LoadError> {
    let params = LlamaModelParams::default().with_vocab_only(true);
    let model = model::load_file(path, &params)?;
    // llama.cpp does not read the model's shape with the vocabulary alone, but keeps the metadata.
    let architecture = model
        .meta_val_str("general.architecture")
        .unwrap_or_default();
    let length = model.meta_val_str(&format!("{architecture}.context_length"));
    let context_length = length
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(i32::MAX as usize);
    Ok(Arc::new(LlamaVocabulary::new(
        Arc::new(model),
        path,
        context_length,
    )))
}

/// A llama.cpp context that serves an engine.
struct LlamaCpp<'a> {
    context: Context<'a>,
    capacity: Capacity,
    /// Whether all sequences share one pool of cells.
    unified: bool,
}

impl Backend for LlamaCpp<'_> {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn n_vocab(&self) -> usize {
        self.context.n_vocab()
    }

    fn decode(&mut self, batch: &[BatchToken]) -> Result<(), DecodeError> {
        self.context.decode(batch)
    }

    fn logits(&mut self, index: usize) -> &[f32] {
        self.context.logits(index)
    }

    fn remove(&mut self, slot: Slot, from: u32) {
        // Only models with recurrent state refuse, and only to remove a part.
        if !self.context.remove(slot.0, from) {
            tracing::error!(slot = slot.0, from, "llama.cpp did not remove cells");
        }
    }

    fn copy(&mut self, from: Slot, to: Slot, cells: u32) {
        if self.unified {
            self.context.copy(from.0, to.0, cells as i32);
        } else {
            // Between streams llama.cpp copies whole ones only.
            self.context.copy(from.0, to.0, -1);
            self.remove(to, cells);
        }
    }

    fn clear(&mut self) {
        self.context.clear();
    }
}
