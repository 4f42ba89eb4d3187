//! How many KV cells to allocate: the smallest of what the user allows, what the sequences can use and what the memories hold.
//! A model whose weights leave no room for what was asked is refused with the arithmetic.

use std::fmt;

use crate::info::Mebibytes;

const GIB: u64 = 1 << 30;
/// Without `cache_size`, the cache is at least one full context and otherwise about this large: cells are cleared when they are
/// allocated, so a larger default would be paid for at every start.
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
    /// Whether each sequence has a stream of its own; `None` if the size decides.
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
    /// Buffers of a step, estimated.
    pub(crate) compute_bytes: u64,
    /// The part of the KV cache in this memory, from 0 to 1.
    pub(crate) kv_share: f64,
}

impl Pool {
    /// Bytes that are needed with so many for the whole KV cache.
    #[cfg(feature = "llama")]
    pub(crate) fn bytes(&self, kv_bytes: u64) -> u64 {
        self.without_kv() + (kv_bytes as f64 * self.kv_share) as u64
    }

    /// Bytes of everything but the KV cache.
    fn without_kv(&self) -> u64 {
        self.weights_bytes + self.draft_bytes + self.compute_bytes
    }
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

/// Takes the smallest of the limits. The rest of the free memory is for other programs, so the cache takes at most half of what
/// weights and steps leave.
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
        let taken = pool.without_kv();
        let needed = (least * request.bytes_per_cell) as f64 * pool.kv_share;
        if taken as f64 + needed > available as f64 {
            return Err(no_room(request, pool, least, available));
        }
        if pool.kv_share > 0.0 {
            let room = (available - taken) as f64 / pool.kv_share;
            // Never less than what was asked for, which fits.
            limits.push((cells(room as u64 / 2).max(least), Bound::Memory));
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
    let kv_bytes = ((least * request.bytes_per_cell) as f64 * pool.kv_share) as u64;
    let total = pool.without_kv() + kv_bytes;
    let draft = match pool.draft_bytes {
        0 => String::new(),
        bytes => format!(" + draft model {}", Mebibytes(bytes)),
    };
    let sum = format!(
        "weights {} + KV cache {} ({least} cells of {} bytes) + compute {}{draft} = {}, and {} are available on {}",
        Mebibytes(pool.weights_bytes),
        Mebibytes(kv_bytes),
        (request.bytes_per_cell as f64 * pool.kv_share) as u64,
        Mebibytes(pool.compute_bytes),
        Mebibytes(total),
        Mebibytes(available),
        pool.name,
    );
    let left = available.saturating_sub(pool.without_kv());
    let fitting = left as f64 / (request.bytes_per_cell.max(1) as f64 * pool.kv_share.max(1e-9));
    let fitting = fitting as u64 / u64::from(CELL_GRAIN) * u64::from(CELL_GRAIN);
    let advice = if pool.weights_bytes > available {
        "take a smaller model, or one with fewer bits a weight".to_owned()
    } else if fitting < u64::from(CELL_GRAIN) {
        "lower `max_num_batched_tokens` or `ubatch`, or take a smaller model".to_owned()
    } else if request.streams == Some(true) {
        format!(
            "lower `max_num_seqs` to {}, or set `kv_unified` to true",
            fitting / (least / u64::from(request.max_sequences))
        )
    } else {
        format!("lower `max_context` to {fitting}")
    };
    format!("{sum}: {advice}")
}

/// Memory this process can still take: the machine's, or what its control group leaves of it. `None` where the system does not say.
#[cfg(feature = "llama")]
pub(crate) fn available_bytes() -> Option<u64> {
    let machine = meminfo_available(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    let read = |name: &str| {
        std::fs::read_to_string(format!("/sys/fs/cgroup/{name}"))
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
    };
    let group = match (read("memory.max"), read("memory.current")) {
        (Some(limit), Some(used)) => limit.saturating_sub(used),
        _ => u64::MAX,
    };
    Some(machine.min(group))
}

fn meminfo_available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests;
