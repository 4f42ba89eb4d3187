//! State of llama.cpp that the whole process shares.

use std::path::Path;
use std::sync::{LazyLock, OnceLock};

use llama_cpp_2::llama_backend::LlamaBackend;

#[cfg(feature = "cpu-kernels")]
use super::cpu_kernels::MeasuredMatmul;
use super::cpu_kernels::{self, Kernels};
use super::{ffi, model};
use crate::protocol::LoadError;
use crate::settings::{CpuKernels, Numa, is_trial};

/// The process-wide state of llama.cpp, initialized on first use.
pub(super) struct Process {
    _backend: LlamaBackend,
    /// Instruction sets and libraries in use.
    pub(super) features: String,
    /// The kernels that models may use.
    pub(super) kernels: Option<Kernels>,
}

static PROCESS: LazyLock<Result<Process, String>> = LazyLock::new(|| {
    ffi::route_logs();
    ffi::attach_guard(model::loaded_paths);
    ffi::attach_to_cuts();
    let backend = LlamaBackend::init().map_err(|error| error.to_string())?;
    cpu_kernels::attach_to_buffers();
    Ok(Process {
        _backend: backend,
        features: ffi::system_info(),
        // A trial computes and checks without the kernels.
        kernels: if is_trial() {
            None
        } else {
            cpu_kernels::attach()?
        },
    })
});

/// Loads a model as an engine does, with calls of llama.cpp on this thread. Weights are packed for
/// the kernels of this project if a spec with this choice would pack them, in pages of 2 MiB where
/// available. For measurements of llama.cpp itself with the same kernels.
pub fn with_cpu_kernels<T>(choice: CpuKernels, load: impl FnOnce() -> T) -> T {
    let attached = PROCESS.as_ref().ok().and_then(|process| process.kernels);
    cpu_kernels::load(cpu_kernels::wanted(choice, attached).is_some(), true, load).0
}

/// Has `measure` time a single product of matrices, computed by the kernels of this project or by
/// llama.cpp without them. It gets the number of equal products in a round, whose matrices no
/// processor cache holds, and computes a round by a call. Also returns the name of the buffer type
/// in which ggml keeps the weights.
///
/// # Errors
/// If the kernels are off or the product is invalid.
#[cfg(feature = "cpu-kernels")]
pub fn measure_matmul<T>(
    matmul: &MeasuredMatmul,
    by_kernels: bool,
    measure: impl FnOnce(usize, &mut dyn FnMut()) -> T,
) -> Result<(T, String), String> {
    let process = PROCESS.as_ref().map_err(Clone::clone)?;
    if by_kernels && process.kernels.is_none() {
        return Err("the kernels are off".to_owned());
    }
    cpu_kernels::measure_matmul(matmul, by_kernels, measure)
}

/// The NUMA strategy, chosen by the first engine of the process.
static NUMA: OnceLock<Numa> = OnceLock::new();

/// Returns the initialized llama.cpp. The error names `model`.
pub(super) fn process(model: &Path) -> Result<&'static Process, LoadError> {
    PROCESS
        .as_ref()
        .map_err(|message| LoadError::model(model, message.clone()))
}

/// Settings that all models of the process share.
#[derive(Clone, Copy)]
pub(super) struct Environment {
    pub(super) numa: Numa,
    /// Instruction sets and libraries in use.
    pub(super) features: &'static str,
}

/// Returns the settings for an engine on `model`. Sets the NUMA strategy if the process has none
/// yet.
pub(super) fn environment(model: &Path, wanted: Option<Numa>) -> Result<Environment, LoadError> {
    let features = process(model)?.features.as_str();
    let numa = *NUMA.get_or_init(|| {
        let numa = wanted.unwrap_or(Numa::Off);
        if numa != Numa::Off {
            ffi::init_numa(numa);
        }
        numa
    });
    match wanted {
        Some(wanted) if wanted != numa => {
            let message = format!(
                "is `{wanted}`, and this process runs with `{numa}`: the first model that is loaded decides for all"
            );
            Err(LoadError::spec("numa", message))
        }
        _ => Ok(Environment { numa, features }),
    }
}
