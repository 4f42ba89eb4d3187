//! The devices that llama.cpp can compute on.

use llama_cpp_2::{LlamaBackendDevice, LlamaBackendDeviceType, list_llama_ggml_backend_devices};

use crate::model::info::DeviceInfo;
use crate::protocol::LoadError;
use crate::settings::Device;

/// All GPUs, in llama.cpp's order: `GPU.0` is the first.
pub(super) fn gpus() -> Vec<LlamaBackendDevice> {
    let is_gpu = |device: &LlamaBackendDevice| {
        matches!(
            device.device_type,
            LlamaBackendDeviceType::Gpu | LlamaBackendDeviceType::IntegratedGpu
        )
    };
    let mut devices = list_llama_ggml_backend_devices();
    devices.retain(is_gpu);
    devices
}

/// Returns true if GPUs take part in computing on this device.
pub(super) fn have_gpus(device: Device) -> bool {
    device != Device::Cpu && !gpus().is_empty()
}

/// Returns llama.cpp's index of the GPU with this number; an error names the GPUs that exist.
pub(super) fn gpu(number: u32) -> Result<usize, LoadError> {
    let gpus = gpus();
    if let Some(device) = gpus.get(number as usize) {
        return Ok(device.index);
    }
    let names: Vec<_> = gpus
        .iter()
        .enumerate()
        .map(|(number, gpu)| format!("`GPU.{number}` ({})", gpu.description))
        .collect();
    let built = cfg!(any(feature = "cuda", feature = "vulkan", feature = "metal"));
    let there = match (names.is_empty(), built) {
        (false, _) => format!("there are {}", names.join(", ")),
        (true, true) => "no GPU was found on this machine".to_owned(),
        (true, false) => {
            "this build computes on CPUs only (cargo features `cuda`, `vulkan`, `metal`)".to_owned()
        }
    };
    let message = format!("`GPU.{number}` does not exist: {there}");
    Err(LoadError::spec("device", message))
}

/// Describes the devices of these names, with the number of layers on each.
pub(super) fn with_layers(layers: &[(String, u32)]) -> Vec<DeviceInfo> {
    let devices = list_llama_ggml_backend_devices();
    let describe = |(name, layers): &(String, u32)| DeviceInfo {
        name: name.clone(),
        description: devices
            .iter()
            .find(|device| device.name == *name)
            .map_or_else(String::new, |device| device.description.clone()),
        layers: *layers,
    };
    layers.iter().map(describe).collect()
}
