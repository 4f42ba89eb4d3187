//! What computes the batches of an engine: the interface that it asks for, and what there is behind
//! it.

#[cfg(feature = "llama")]
use std::path::Path;
#[cfg(feature = "llama")]
use std::sync::Arc;

#[cfg(feature = "llama")]
use crate::model::vocab::Vocab;
#[cfg(feature = "llama")]
use crate::protocol::LoadError;
use crate::room::Allocator;

pub(crate) mod interface;
#[cfg(feature = "llama")]
pub(crate) mod llama;
pub mod scripted;

pub use interface::{
    Adapter, Adapters, Backend, BatchImage, BatchToken, Bitmap, Capacity, Checkpoint, DecodeError,
    Decoded, DraftSupport, EmbeddingBackend, EmbeddingCapacity, KvLayout, MAX_ADAPTERS, Piece,
    PreparedTile, Projector, Reuse, SaveError, SavedCells, SavedPart, Slot, Sound, TileShape,
};
pub(crate) use interface::{Loaded, Serve, TILE_SECONDS};
#[cfg(feature = "llama")]
pub use llama::with_cpu_kernels;
#[cfg(feature = "cpu-kernels")]
pub use llama::{MatmulTime, MeasuredMatmul, matmul_time};

/// Ends the process at once. A thread that still loads a model or computes does not notice: when
/// `main` returns instead, C++ drops what llama.cpp has in statics, under the hands of that thread.
pub fn exit(code: u8) -> ! {
    #[cfg(feature = "llama")]
    llama::exit(code.into());
    #[cfg(not(feature = "llama"))]
    std::process::exit(code.into())
}

/// What the backends know of the memory that this process takes.
pub(crate) fn allocator() -> Allocator {
    #[cfg(all(feature = "llama", target_os = "linux", target_env = "gnu"))]
    return Allocator {
        unbacked: Some(llama::unbacked_bytes),
        freed: Some(llama::freed_bytes),
        trim: Some(llama::trim_heap),
    };
    #[cfg(not(all(feature = "llama", target_os = "linux", target_env = "gnu")))]
    Allocator::default()
}

/// Has the allocator keep little of what is freed, and spare addresses where they are limited.
pub(crate) fn limit_heaps(mappings_are_limited: bool) {
    #[cfg(all(feature = "llama", target_os = "linux", target_env = "gnu"))]
    llama::limit_heaps(mappings_are_limited);
    #[cfg(not(all(feature = "llama", target_os = "linux", target_env = "gnu")))]
    let _ = mappings_are_limited;
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
