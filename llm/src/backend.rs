//! What computes the batches of an engine: the interface that it asks for, and what there is behind
//! it.

#[cfg(feature = "llama")]
use std::path::Path;
#[cfg(feature = "llama")]
use std::sync::Arc;

#[cfg(feature = "llama")]
use crate::protocol::LoadError;
#[cfg(feature = "llama")]
use crate::vocab::Vocab;

mod interface;
#[cfg(feature = "llama")]
pub(crate) mod llama;
mod saved;
pub mod scripted;

pub use interface::{
    Adapter, Backend, BatchToken, Capacity, DecodeError, DraftSupport, KvLayout, SaveError, Slot,
};
pub(crate) use interface::{Loaded, Serve};
#[cfg(all(feature = "llama", target_os = "linux"))]
pub(crate) use llama::unbacked_bytes;
#[cfg(feature = "llama")]
pub use llama::with_cpu_kernels;
#[cfg(feature = "cpu-kernels")]
pub use llama::{MeasuredProduct, ProductTime, product_time};
#[cfg(all(feature = "llama", target_os = "linux", target_env = "gnu"))]
pub(crate) use llama::{few_heaps, freed_bytes, trim_heap};
pub use saved::{SavedCells, SavedPart};

/// Ends the process at once. A thread that still loads a model or computes does not notice: when
/// `main` returns instead, C++ drops what llama.cpp has in statics, under the hands of that thread.
pub fn exit(code: u8) -> ! {
    #[cfg(feature = "llama")]
    llama::exit(code.into());
    #[cfg(not(feature = "llama"))]
    std::process::exit(code.into())
}

/// Limits what this process can allocate from here on.
pub(crate) fn limit_process(bytes: u64) {
    #[cfg(feature = "llama")]
    llama::limit_process(bytes);
    #[cfg(not(feature = "llama"))]
    let _ = bytes;
}

/// Whether the threads of an engine have a CPU each, where neither its spec says otherwise nor a
/// GPU takes part.
pub fn threads_have_own_cpus() -> bool {
    #[cfg(feature = "llama")]
    return llama::threads_have_own_cpus();
    #[cfg(not(feature = "llama"))]
    false
}

/// Loads only the vocabulary of a GGUF file: its tokens, special tokens and chat template, without
/// the weights.
///
/// # Errors
/// [`LoadError`] if the file cannot be read or is not a model.
#[cfg(feature = "llama")]
pub fn load_vocab(model: &Path) -> Result<Arc<dyn Vocab>, LoadError> {
    llama::open_vocab(model)
}
