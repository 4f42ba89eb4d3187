//! The devices that llama.cpp can compute on.

use llama_cpp_2::{LlamaBackendDeviceType, list_llama_ggml_backend_devices};

use crate::protocol::LoadError;

/// llama.cpp's index of the GPU with this number.
pub(super) fn gpu(number: u32) -> Result<usize, LoadError> {
    let is_gpu = |kind| {
        matches!(
            kind,
            LlamaBackendDeviceType::Gpu | LlamaBackendDeviceType::IntegratedGpu
        )
    };
    let gpus: Vec<_> = list_llama_ggml_backend_devices()
        .into_iter()
        .filter(|device| is_gpu(device.device_type))
        .collect();
    gpus.get(number as usize)
        .map(|device| device.index)
        .ok_or_else(|| LoadError::Spec {
            field: "device",
            message: format!(
                "`GPU.{number}` is not there: this build and machine have {} GPUs",
                gpus.len()
            ),
        })
}
