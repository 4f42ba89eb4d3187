//! What concerns the whole process.

use std::ffi::CStr;

use llama_cpp_sys_2 as sys;

use crate::spec::Numa;

/// The instruction sets and libraries that this build of llama.cpp uses on this machine. Called
/// once, at the initialization.
pub(crate) fn system_info() -> String {
    // SAFETY: returns a pointer to a static NUL-terminated text; only one thread calls this, from
    // the one-time initialization.
    let text = unsafe { CStr::from_ptr(sys::llama_print_system_info()) };
    text.to_string_lossy().trim().to_owned()
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
