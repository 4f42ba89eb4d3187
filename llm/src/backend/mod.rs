//! Backends that compute the batches of an engine, and the interface between them and the engine.

#[cfg(feature = "llama")]
use std::path::Path;
#[cfg(feature = "llama")]
use std::sync::Arc;

use crate::memory_budget::Allocator;
#[cfg(feature = "llama")]
use crate::model::vocab::Vocab;
#[cfg(feature = "llama")]
use crate::protocol::LoadError;

pub(crate) mod interface;
#[cfg(feature = "llama")]
pub(crate) mod llama;
pub mod scripted;

pub use interface::{
    Adapter, Adapters, Backend, BatchImage, BatchToken, Bitmap, Capacity, Checkpoint, DecodeError,
    DecodedMedium, DraftSupport, EmbeddingBackend, EmbeddingCapacity, KvLayout, MAX_ADAPTERS,
    Piece, PreparedTile, Projector, Reuse, SaveError, SavedCells, SavedPart, Slot, Sound,
    TileShape,
};
pub(crate) use interface::{LoadedBackends, Serve, TILE_SECONDS};
#[cfg(feature = "llama")]
pub use llama::with_cpu_kernels;
#[cfg(feature = "cpu-kernels")]
pub use llama::{MeasuredMatmul, measure_matmul};

/// Ends the process at once. If `main` returned instead, C++ would destroy llama.cpp's statics
/// while a thread may still load a model or compute.
pub fn exit(code: u8) -> ! {
    #[cfg(feature = "llama")]
    llama::exit(code.into());
    #[cfg(not(feature = "llama"))]
    std::process::exit(code.into())
}

/// Returns what the allocator can report about this process, with a way to trim its heap.
pub(crate) fn allocator() -> Allocator {
    #[cfg(all(feature = "llama", target_os = "linux", target_env = "gnu"))]
    return Allocator {
        unbacked: llama::unbacked_bytes,
        freed: llama::freed_bytes,
        trim: llama::trim_heap,
    };
    #[cfg(not(all(feature = "llama", target_os = "linux", target_env = "gnu")))]
    Allocator::SILENT
}

/// Makes the allocator keep little freed memory, and use few address ranges if mappings are
/// limited.
pub(crate) fn limit_heaps(mappings_are_limited: bool) {
    #[cfg(all(feature = "llama", target_os = "linux", target_env = "gnu"))]
    llama::limit_heaps(mappings_are_limited);
    #[cfg(not(all(feature = "llama", target_os = "linux", target_env = "gnu")))]
    let _ = mappings_are_limited;
}

/// Limits the memory that this process can allocate from here on, in bytes.
pub(crate) fn limit_process(bytes: u64) {
    #[cfg(feature = "llama")]
    llama::limit_process(bytes);
    #[cfg(not(feature = "llama"))]
    let _ = bytes;
}

/// Returns true if each thread of an engine has a CPU of its own, unless its spec says otherwise or
/// a GPU takes part.
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
