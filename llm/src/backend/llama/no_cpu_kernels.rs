//! Replacement of the module in a build without the feature `cpu-kernels`: llama.cpp computes
//! everything by itself.

use llama_cpp_sys_2 as sys;

use super::model::PackCounts;
use crate::settings::CpuKernels;

/// The kernels of this build; there are none.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernels {}

/// Attaches nothing and never fails.
#[expect(
    clippy::unnecessary_wraps,
    reason = "with kernels the environment can be wrong"
)]
pub(super) fn attach() -> Result<Option<Kernels>, String> {
    Ok(None)
}

/// Leaves ggml's buffers as they are.
pub(super) fn attach_to_buffers() {}

pub(super) fn wanted(_: CpuKernels, attached: Option<Kernels>) -> Option<Kernels> {
    attached
}

pub(super) fn load<T>(
    _wanted: bool,
    _huge_pages: bool,
    load: impl FnOnce() -> T,
) -> (T, PackCounts) {
    (load(), PackCounts::default())
}

pub(super) fn attends(_keys: sys::ggml_type, _values: sys::ggml_type) -> bool {
    false
}

/// Watches nothing: no code of this project runs inside of a computation.
pub(super) struct PanicWatch;

impl PanicWatch {
    pub(super) fn thread() -> Self {
        Self
    }

    pub(super) fn pool(_: *mut sys::ggml_threadpool) -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "with kernels something can panic")]
    pub(super) fn panicked(&self) -> bool {
        false
    }
}

/// Huge pages in this build: memory is never moved.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(super) struct HugePages;

#[cfg(target_os = "linux")]
impl HugePages {
    pub(super) fn new(_wanted: bool) -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "with kernels pages are moved")]
    pub(super) fn move_some(&mut self) -> bool {
        false
    }
}

/// Returns 0, as llama.cpp writes to all cells when it allocates them.
#[cfg(target_os = "linux")]
pub(crate) fn unused_bytes() -> u64 {
    0
}
