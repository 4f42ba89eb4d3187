//! Size of the KV cache: the smallest of the user's limit, the cells that the sequences can use,
//! and the available memory. If the weights leave too little room for the requested size, the model
//! is refused with the arithmetic.

use std::fmt;

use crate::model::info::Mebibytes;

const GIB: u64 = 1 << 30;
/// Approximate default size of the cache, in bytes; it is at least one full context. A larger share
/// of the machine must be configured.
const DEFAULT_BYTES: u64 = GIB / 4;
/// Granularity of llama.cpp's allocation, in cells.
pub(crate) const CELL_GRAIN: u32 = 256;

/// Inputs that determine the size of a KV cache.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CacheRequest {
    /// `cache_size` of the spec in GB, 0 for the default.
    pub(crate) ceiling_gb: u64,
    /// Bytes of one cell over all layers.
    pub(crate) bytes_per_cell: u64,
    /// Maximum number of tokens of a sequence.
    pub(crate) context: u32,
    /// True if the user asked for that context. The cache must then hold it.
    pub(crate) context_required: bool,
    pub(crate) max_sequences: u32,
    /// True if each sequence has its own KV cache; `None` if the size decides.
    pub(crate) streams: Option<bool>,
    /// The memories that hold the model.
    pub(crate) pools: Vec<Pool>,
}

/// A memory that holds a part of the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pool {
    /// Name of the memory in messages.
    pub(crate) name: String,
    /// Bytes that were available before the model was loaded; `None` if unknown.
    pub(crate) available_bytes: Option<u64>,
    pub(crate) weights_bytes: u64,
    /// Bytes that the draft model takes.
    pub(crate) draft_bytes: u64,
    /// Bytes that the projector takes.
    pub(crate) projector_bytes: u64,
    /// Bytes of the recurrent states of all sequences.
    pub(crate) state_bytes: u64,
    /// Estimated buffers of a step: a part that is independent of the size of the KV cache, and a
    /// part per cell of all sequences.
    pub(crate) compute_bytes: u64,
    pub(crate) compute_bytes_per_cell: u64,
    /// Bytes that the spec reserves for the cells of finished sequences.
    pub(crate) prefix_bytes: u64,
    /// Fraction of the KV cache in this memory, from 0 to 1.
    pub(crate) kv_share: f64,
}

impl Pool {
    /// Returns the bytes needed for this number of cells of this size.
    pub(crate) fn bytes(&self, cells: u64, bytes_per_cell: u64) -> u64 {
        self.without_cells() + (cells as f64 * self.bytes_per_cell(bytes_per_cell)) as u64
    }

    /// Returns the bytes needed per cell in this memory; `bytes_per_cell` counts all memories.
    fn bytes_per_cell(&self, bytes_per_cell: u64) -> f64 {
        bytes_per_cell as f64 * self.kv_share + self.compute_bytes_per_cell as f64
    }

    /// Returns the bytes that do not depend on the number of cells.
    fn without_cells(&self) -> u64 {
        self.weights_bytes
            + self.draft_bytes
            + self.projector_bytes
            + self.state_bytes
            + self.compute_bytes
            + self.prefix_bytes
    }

    /// Returns the bytes that remain with this number of cells of this size; `None` if unknown.
    #[cfg(feature = "llama")]
    pub(crate) fn left(&self, cells: u64, bytes_per_cell: u64) -> Option<u64> {
        let taken = self.bytes(cells, bytes_per_cell);
        Some(self.available_bytes?.saturating_sub(taken))
    }
}

/// Returns the default size for the cells of finished sequences, in bytes, from the bytes that are
/// left.
#[cfg(feature = "llama")]
pub(crate) fn default_prefix_bytes(left: u64) -> u64 {
    left / 8
}

/// The chosen size, with the limit that decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheSize {
    pub(crate) cells: u32,
    pub(crate) bound: CacheLimit,
}

/// The limit that decided the size of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheLimit {
    Sequences,
    Ceiling,
    Memory,
    Default,
}

impl fmt::Display for CacheLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sequences => "all that `max_num_seqs` sequences can use",
            Self::Ceiling => "the ceiling `cache_size`",
            Self::Memory => "half of the memory that the model leaves",
            Self::Default => "the default size, as `cache_size` is 0",
        })
    }
}

/// Takes the smallest of the limits. The cache takes at most half of the memory left by weights and
/// steps; the rest is for other programs.
///
/// # Errors
/// The arithmetic, if the minimum that the user asked for does not fit in one of the memories.
pub(crate) fn cache_size(request: &CacheRequest) -> Result<CacheSize, String> {
    let context = u64::from(request.context);
    let cells = |bytes: u64| bytes / request.bytes_per_cell.max(1);
    let whole_contexts = context * u64::from(request.max_sequences);
    let ceiling = match request.ceiling_gb {
        0 => (cells(DEFAULT_BYTES).max(context), CacheLimit::Default),
        gb => (cells(gb.saturating_mul(GIB)), CacheLimit::Ceiling),
    };
    let mut limits = vec![(whole_contexts, CacheLimit::Sequences), ceiling];
    let least = least_cells(request);
    for pool in &request.pools {
        let Some(available) = pool.available_bytes else {
            continue;
        };
        if pool.bytes(least, request.bytes_per_cell) > available {
            return Err(no_room(request, pool, least, available));
        }
        let bytes_per_cell = pool.bytes_per_cell(request.bytes_per_cell);
        if bytes_per_cell > 0.0 {
            let room = (available - pool.without_cells()) as f64 / bytes_per_cell;
            // At least the requested size, which fits.
            limits.push((((room / 2.0) as u64).max(least), CacheLimit::Memory));
        }
    }
    let (cells, bound) = limits
        .into_iter()
        .min_by_key(|(cells, _)| *cells)
        .expect("the list is not empty");
    // llama.cpp counts cells in 32 bits and positions with a sign.
    Ok(CacheSize {
        cells: cells.min(i32::MAX as u64) as u32,
        bound,
    })
}

/// Minimum number of cells that the spec requires.
fn least_cells(request: &CacheRequest) -> u64 {
    let mut least = u64::from(CELL_GRAIN);
    if request.context_required {
        least = request.context.next_multiple_of(CELL_GRAIN).into();
    }
    if request.streams == Some(true) {
        least *= u64::from(request.max_sequences);
    }
    least
}

fn no_room(request: &CacheRequest, pool: &Pool, least: u64, available: u64) -> String {
    let kv_bytes_per_cell = (request.bytes_per_cell as f64 * pool.kv_share) as u64;
    let term = |name: &str, bytes| match bytes {
        0 => String::new(),
        bytes => format!(" + {name} {}", Mebibytes(bytes)),
    };
    let sum = format!(
        "weights {} + KV cache {} ({least} cells of {kv_bytes_per_cell} bytes) + compute {}{}{}{}{} = {}, and {} are available on {}",
        Mebibytes(pool.weights_bytes),
        Mebibytes(least * kv_bytes_per_cell),
        Mebibytes(pool.compute_bytes + least * pool.compute_bytes_per_cell),
        term("recurrent states", pool.state_bytes),
        term("draft model", pool.draft_bytes),
        term("projector", pool.projector_bytes),
        term("prefix cache", pool.prefix_bytes),
        Mebibytes(pool.bytes(least, request.bytes_per_cell)),
        Mebibytes(available),
        pool.name,
    );
    format!("{sum}: {}", advice(request, pool, least, available))
}

/// Suggests a change that makes the cache fit.
fn advice(request: &CacheRequest, pool: &Pool, least: u64, available: u64) -> String {
    let without_prefixes = pool.bytes(least, request.bytes_per_cell) - pool.prefix_bytes;
    if let Some(left) = available.checked_sub(without_prefixes) {
        // Only the memory reserved for finished sequences is too much. Rounded down.
        let hundredths = left / (GIB / 100);
        return format!("lower `prefix_cache_size` to {}", hundredths as f64 / 100.0);
    }
    let left = available.saturating_sub(pool.without_cells());
    let fitting = left as f64 / pool.bytes_per_cell(request.bytes_per_cell).max(1e-9);
    let fitting = fitting as u64 / u64::from(CELL_GRAIN) * u64::from(CELL_GRAIN);
    if pool.weights_bytes > available {
        "use a smaller model, or one with fewer bits per weight".to_owned()
    } else if pool.state_bytes > 0 && left == 0 {
        "lower `max_num_seqs` or `rollback_states`".to_owned()
    } else if fitting < u64::from(CELL_GRAIN) {
        "lower `max_num_batched_tokens` or `ubatch`, or use a smaller model".to_owned()
    } else if request.streams == Some(true) {
        format!(
            "lower `max_num_seqs` to {}, or set `kv_unified` to true",
            fitting / (least / u64::from(request.max_sequences))
        )
    } else {
        format!("lower `max_context` to {fitting}")
    }
}

#[cfg(test)]
mod tests;
