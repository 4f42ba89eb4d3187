//! Functions that affect the whole process: the initialization of llama.cpp, exit, the heap that
//! Rust and C++ share, and limits.

use std::ffi::CStr;

use llama_cpp_sys_2 as sys;

use crate::settings::Numa;

/// Returns the instruction sets and libraries that this build of llama.cpp uses on this machine.
/// Called once, at initialization.
pub(crate) fn system_info() -> String {
    // SAFETY: returns a pointer to a static NUL-terminated text; only one thread calls this, from
    // the one-time initialization.
    let text = unsafe { CStr::from_ptr(sys::llama_print_system_info()) };
    features(&text.to_string_lossy())
}

/// Extracts the enabled features from a text such as `CPU : SSE3 = 1 | AVX = 0 | OPENMP = 1 |`.
fn features(text: &str) -> String {
    let parts = text
        .split(['|', ':'])
        .filter_map(|part| part.split_once('='));
    let present = parts.filter(|(_, value)| value.trim() != "0");
    let names: Vec<&str> = present.map(|(name, _)| name.trim()).collect();
    names.join(", ")
}

/// Tells ggml how to spread threads over NUMA nodes. Called once, before a model is loaded.
pub(crate) fn init_numa(strategy: Numa) {
    let strategy = match strategy {
        Numa::Off => sys::GGML_NUMA_STRATEGY_DISABLED,
        Numa::Distribute => sys::GGML_NUMA_STRATEGY_DISTRIBUTE,
        Numa::Isolate => sys::GGML_NUMA_STRATEGY_ISOLATE,
        Numa::Numactl => sys::GGML_NUMA_STRATEGY_NUMACTL,
    };
    // SAFETY: takes a plain number; the caller's lock keeps other threads out until it returns.
    unsafe { sys::llama_numa_init(strategy) }
}

/// Ends the process without C++'s destructors of statics.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: the call has no conditions.
    unsafe { libc::_exit(code) }
}

/// Returns the bytes that were freed but not returned to the system. Later allocations reuse them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn freed_bytes() -> u64 {
    // SAFETY: the call reads the numbers of the heaps, under their locks.
    unsafe { libc::mallinfo2() }.fordblks as u64
}

/// Returns freed memory to the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn trim_heap() {
    // SAFETY: the call touches free memory alone, under the locks of the heaps.
    unsafe { libc::malloc_trim(0) };
}

/// Makes the allocator keep little freed memory. Threads share a few heaps, because a heap keeps
/// the memory of threads that have ended. Large blocks are mapped and unmapped separately: by
/// default, the allocator takes them from its heaps once one was freed.
///
/// If mappings are limited, addresses are saved too: each heap reserves 64 MiB. The free part of a
/// heap counts as available, although the next large allocation might not fit into it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn limit_heaps(mappings_are_limited: bool) {
    /// Minimum number of heaps; with fewer, threads wait for each other.
    const LEAST_HEAPS: usize = 4;
    let (heaps, large) = if mappings_are_limited {
        (2, 128 << 10)
    } else {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        (cpus.max(LEAST_HEAPS), 1 << 20)
    };
    // SAFETY: sets numbers that the allocator reads under its own locks.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, heaps as i32);
        libc::mallopt(libc::M_MMAP_THRESHOLD, large);
        // Twice as much, as by default, so that a heap is not trimmed each time its end is freed.
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * large);
    }
}

/// Limits the memory that this process can allocate from here on, in bytes, without mapped files.
/// Also disables core dumps.
pub(crate) fn limit_process(bytes: u64) {
    let limit = |limited, to: u64| {
        let to = libc::rlimit {
            rlim_cur: to,
            rlim_max: to,
        };
        // SAFETY: the numbers are only read. A limit that the system refuses, such as one above
        // that of the parent, is not needed.
        let _refused = unsafe { libc::setrlimit(limited, &raw const to) };
    };
    limit(libc::RLIMIT_DATA, bytes);
    limit(libc::RLIMIT_CORE, 0);
    #[cfg(target_os = "linux")]
    // SAFETY: takes plain numbers.
    let _refused = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
}

/// Returns the bytes of a tensor's data; 0 for types that ggml does not know, which llama.cpp refuses.
pub(in crate::backend::llama) fn tensor_bytes(kind: u32, elements: u64) -> u64 {
    if kind >= sys::GGML_TYPE_COUNT {
        return 0;
    }
    // SAFETY: both look the type up in a table that has all types below `GGML_TYPE_COUNT`.
    let (block, bytes) = unsafe { (sys::ggml_blck_size(kind), sys::ggml_type_size(kind)) };
    match u64::try_from(block) {
        Ok(block @ 1..) => (elements / block).saturating_mul(bytes as u64),
        _ => 0,
    }
}

/// Returns true if ggml can multiply by a tensor of this type.
pub(in crate::backend::llama) fn multiplies(kind: u32) -> bool {
    match kind {
        sys::GGML_TYPE_F32 | sys::GGML_TYPE_F16 | sys::GGML_TYPE_BF16 => true,
        // Only the other factor is ever converted to these.
        sys::GGML_TYPE_Q8_1 | sys::GGML_TYPE_Q8_K | sys::GGML_TYPE_COUNT.. => false,
        // SAFETY: looks the type up in a table that has all types below `GGML_TYPE_COUNT`.
        _ => unsafe { sys::ggml_is_quantized(kind) },
    }
}

#[cfg(test)]
mod tests {
    use super::features;

    #[test]
    fn what_is_there_is_named() {
        let text = "CPU : SSE3 = 1 | AVX512 = 0 | OPENMP = 1 | CUDA : ARCHS = 900 | ";
        assert_eq!(features(text), "SSE3, OPENMP, ARCHS");
    }
}
