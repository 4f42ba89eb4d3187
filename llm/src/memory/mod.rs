//! How many KV cells to allocate: the smallest of what the user allows, what the sequences can use
//! and what the memories hold. A model whose weights leave no room for what was asked is refused
//! with the arithmetic.

use std::fmt;

use crate::model::info::Mebibytes;

const GIB: u64 = 1 << 30;
/// Without `cache_size`, the cache is at least one full context and otherwise about this large: who
/// wants to give it more of the machine says so.
const DEFAULT_BYTES: u64 = GIB / 4;
/// llama.cpp allocates cells in multiples of this.
pub(crate) const CELL_GRAIN: u32 = 256;

/// The numbers behind the size of a KV cache.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CacheRequest {
    /// `cache_size` of the spec in GB, 0 for the default.
    pub(crate) ceiling_gb: u64,
    /// Bytes of one cell over all layers.
    pub(crate) bytes_per_cell: u64,
    /// Tokens a sequence can have.
    pub(crate) context: u32,
    /// Whether the user asked for that context, which the cache then has to hold.
    pub(crate) context_required: bool,
    pub(crate) max_sequences: u32,
    /// Whether each sequence has a KV cache of its own; `None` if the size decides.
    pub(crate) streams: Option<bool>,
    /// The memories that hold the model.
    pub(crate) pools: Vec<Pool>,
}

/// A memory that holds a part of the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pool {
    /// What it is called in messages.
    pub(crate) name: String,
    /// What could be taken of it before the model was loaded, if that is known.
    pub(crate) available_bytes: Option<u64>,
    pub(crate) weights_bytes: u64,
    /// What the draft model takes.
    pub(crate) draft_bytes: u64,
    /// What the projector takes, which reads images.
    pub(crate) projector_bytes: u64,
    /// What recurrent layers keep of all sequences.
    pub(crate) state_bytes: u64,
    /// Buffers of a step, estimated: what does not depend on the size of the KV cache, and what
    /// each cell of all takes.
    pub(crate) compute_bytes: u64,
    pub(crate) compute_bytes_per_cell: u64,
    /// What the spec asks for to keep the cells of finished sequences.
    pub(crate) prefix_bytes: u64,
    /// The part of the KV cache in this memory, from 0 to 1.
    pub(crate) kv_share: f64,
}

impl Pool {
    /// Bytes that are needed with so many cells of so many bytes.
    pub(crate) fn bytes(&self, cells: u64, bytes_per_cell: u64) -> u64 {
        self.without_cells() + (cells as f64 * self.bytes_per_cell(bytes_per_cell)) as u64
    }

    /// Bytes that each cell needs, one of so many bytes over all memories.
    fn bytes_per_cell(&self, bytes_per_cell: u64) -> f64 {
        bytes_per_cell as f64 * self.kv_share + self.compute_bytes_per_cell as f64
    }

    /// Bytes of everything that does not depend on the number of cells.
    fn without_cells(&self) -> u64 {
        self.weights_bytes
            + self.draft_bytes
            + self.projector_bytes
            + self.state_bytes
            + self.compute_bytes
            + self.prefix_bytes
    }

    /// What is left beside so many cells of so many bytes, if that is known.
    #[cfg(feature = "llama")]
    pub(crate) fn left(&self, cells: u64, bytes_per_cell: u64) -> Option<u64> {
        let taken = self.bytes(cells, bytes_per_cell);
        Some(self.available_bytes?.saturating_sub(taken))
    }
}

/// What the cells of finished sequences may take where the spec does not say, of the memory that is
/// left.
#[cfg(feature = "llama")]
pub(crate) fn default_prefix_bytes(left: u64) -> u64 {
    left / 8
}

/// The outcome, with what bounded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheSize {
    pub(crate) cells: u32,
    pub(crate) bound: Bound,
}

/// Which limit decided the size of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Sequences,
    Ceiling,
    Memory,
    Default,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sequences => "all that `max_num_seqs` sequences can use",
            Self::Ceiling => "the ceiling `cache_size`",
            Self::Memory => "half of the memory that the model leaves",
            Self::Default => "the default size, as `cache_size` is 0",
        })
    }
}

/// Takes the smallest of the limits. The rest of the free memory is for other programs, so the
/// cache takes at most half of what weights and steps leave.
///
/// # Errors
/// The arithmetic, if the least that the user asked for does not fit in one of the memories.
pub(crate) fn cache_size(request: &CacheRequest) -> Result<CacheSize, String> {
    let context = u64::from(request.context);
    let cells = |bytes: u64| bytes / request.bytes_per_cell.max(1);
    let mut limits = vec![(context * u64::from(request.max_sequences), Bound::Sequences)];
    if request.ceiling_gb == 0 {
        limits.push((cells(DEFAULT_BYTES).max(context), Bound::Default));
    } else {
        limits.push((
            cells(request.ceiling_gb.saturating_mul(GIB)),
            Bound::Ceiling,
        ));
    }
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
            // Never less than what was asked for, which fits.
            limits.push((((room / 2.0) as u64).max(least), Bound::Memory));
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

/// The cells without which the spec's words would not be kept.
fn least_cells(request: &CacheRequest) -> u64 {
    let context = if request.context_required {
        request.context.next_multiple_of(CELL_GRAIN)
    } else {
        CELL_GRAIN
    };
    let streams = if request.streams == Some(true) {
        request.max_sequences
    } else {
        1
    };
    u64::from(context) * u64::from(streams)
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

/// What to change so that it fits.
fn advice(request: &CacheRequest, pool: &Pool, least: u64, available: u64) -> String {
    let without_prefixes = pool.bytes(least, request.bytes_per_cell) - pool.prefix_bytes;
    if let Some(left) = available.checked_sub(without_prefixes) {
        // Only what is asked for finished sequences is too much. Rounded down.
        let hundredths = left / (GIB / 100);
        return format!("lower `prefix_cache_size` to {}", hundredths as f64 / 100.0);
    }
    let left = available.saturating_sub(pool.without_cells());
    let fitting = left as f64 / pool.bytes_per_cell(request.bytes_per_cell).max(1e-9);
    let fitting = fitting as u64 / u64::from(CELL_GRAIN) * u64::from(CELL_GRAIN);
    if pool.weights_bytes > available {
        "take a smaller model, or one with fewer bits a weight".to_owned()
    } else if pool.state_bytes > 0 && left == 0 {
        "lower `max_num_seqs` or `rollback_states`".to_owned()
    } else if fitting < u64::from(CELL_GRAIN) {
        "lower `max_num_batched_tokens` or `ubatch`, or take a smaller model".to_owned()
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
