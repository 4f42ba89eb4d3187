//! How many KV cells to allocate: the smallest of what the user allows, what the sequences can use and what the machine holds.

use std::fmt;
#[cfg(feature = "llama")]
use std::fs;

const GIB: u64 = 1 << 30;
/// Without `cache_size`, the cache is at least one full context and otherwise about this large: cells are cleared when they are
/// allocated, so a larger default would be paid for at every start.
const DEFAULT_BYTES: u64 = GIB / 4;

/// The numbers behind the size of a KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheRequest {
    /// `cache_size` of the spec in GB, 0 for the default.
    pub(crate) ceiling_gb: u64,
    /// Bytes of one cell over all layers.
    pub(crate) bytes_per_cell: u64,
    /// Tokens a sequence can have.
    pub(crate) context: u32,
    pub(crate) max_sequences: u32,
    /// Memory that can be taken on this machine now, if it is known.
    pub(crate) available_bytes: Option<u64>,
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
            Self::Memory => "half of the machine's free memory",
            Self::Default => "the default size, as `cache_size` is 0",
        })
    }
}

/// Takes the smallest of the limits. The rest of the free memory is for weights' pages, compute buffers and other programs, so the
/// cache takes at most half of it.
pub(crate) fn cache_size(request: &CacheRequest) -> CacheSize {
    let cells = |bytes: u64| bytes / request.bytes_per_cell.max(1);
    let context = u64::from(request.context);
    let mut limits = vec![(context * u64::from(request.max_sequences), Bound::Sequences)];
    if request.ceiling_gb == 0 {
        limits.push((cells(DEFAULT_BYTES).max(context), Bound::Default));
    } else {
        limits.push((
            cells(request.ceiling_gb.saturating_mul(GIB)),
            Bound::Ceiling,
        ));
    }
    if let Some(available) = request.available_bytes {
        limits.push((cells(available / 2), Bound::Memory));
    }
    let (cells, bound) = limits
        .into_iter()
        .min_by_key(|(cells, _)| *cells)
        .expect("the list is not empty");
    // llama.cpp counts cells in 32 bits and positions with a sign.
    CacheSize {
        cells: cells.min(i32::MAX as u64) as u32,
        bound,
    }
}

/// Memory this process can still take: the machine's, or what its control group leaves of it. `None` where the system does not say.
#[cfg(feature = "llama")]
pub(crate) fn available_bytes() -> Option<u64> {
    let machine = meminfo_available(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let read = |name: &str| {
        fs::read_to_string(format!("/sys/fs/cgroup/{name}"))
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
mod tests {
    use super::*;

    const MODEL: CacheRequest = CacheRequest {
        ceiling_gb: 50,
        bytes_per_cell: 12_288,
        context: 32_768,
        max_sequences: 256,
        available_bytes: Some(16 * GIB),
    };

    #[test]
    fn a_ceiling_above_the_machine_gives_half_of_its_free_memory() {
        let size = cache_size(&MODEL);
        assert_eq!(
            size,
            CacheSize {
                cells: (8 * GIB / 12_288) as u32,
                bound: Bound::Memory
            }
        );
    }

    #[test]
    fn a_ceiling_above_what_sequences_can_use_gives_what_they_can_use() {
        let size = cache_size(&CacheRequest {
            context: 1_024,
            max_sequences: 8,
            ..MODEL
        });
        assert_eq!(
            size,
            CacheSize {
                cells: 8_192,
                bound: Bound::Sequences
            }
        );
    }

    #[test]
    fn a_low_ceiling_decides() {
        let size = cache_size(&CacheRequest {
            ceiling_gb: 1,
            ..MODEL
        });
        assert_eq!(
            size,
            CacheSize {
                cells: (GIB / 12_288) as u32,
                bound: Bound::Ceiling
            }
        );
    }

    #[test]
    fn the_default_holds_one_context_even_if_that_is_large() {
        let small = cache_size(&CacheRequest {
            ceiling_gb: 0,
            context: 4_096,
            ..MODEL
        });
        assert_eq!(
            small,
            CacheSize {
                cells: (DEFAULT_BYTES / 12_288) as u32,
                bound: Bound::Default
            }
        );
        let large = cache_size(&CacheRequest {
            ceiling_gb: 0,
            context: 131_072,
            ..MODEL
        });
        assert_eq!(
            large,
            CacheSize {
                cells: 131_072,
                bound: Bound::Default
            }
        );
    }

    #[test]
    fn free_memory_is_read_from_meminfo() {
        assert_eq!(
            meminfo_available("MemTotal:  9 kB\nMemAvailable:    2048 kB\n"),
            Some(2 << 20)
        );
        assert_eq!(meminfo_available("MemTotal:  9 kB\n"), None);
    }
}
