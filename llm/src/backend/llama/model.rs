//! Loading a GGUF file.

use std::fs::File;
use std::path::Path;

use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::{LlamaModelParams, LlamaSplitMode};

use super::{devices, ffi, llama};
use crate::protocol::LoadError;
use crate::spec::{Device, EngineSpec};

/// More layers than any model has.
const ALL_LAYERS: u32 = 100_000;

/// Loads the weights as the spec says.
pub(super) fn load(spec: &EngineSpec) -> Result<LlamaModel, LoadError> {
    let knobs = &spec.plugin_config;
    let params = LlamaModelParams::default()
        .with_use_mmap(knobs.mmap)
        .with_use_mlock(knobs.mlock);
    let params = match spec.device {
        Device::Cpu => params.with_n_gpu_layers(0),
        Device::Auto => params.with_n_gpu_layers(knobs.gpu_layers.unwrap_or(ALL_LAYERS)),
        Device::Gpu(number) => {
            let device = devices::gpu(number)?;
            let wrong = |error: llama_cpp_2::LlamaCppError| LoadError::Spec {
                field: "device",
                message: error.to_string(),
            };
            params
                .with_devices(&[device])
                .map_err(wrong)?
                .with_split_mode(LlamaSplitMode::None)
                .with_n_gpu_layers(knobs.gpu_layers.unwrap_or(ALL_LAYERS))
        }
    };
    load_file(&spec.model, &params)
}

/// Loads a file with these parameters.
pub(super) fn load_file(path: &Path, params: &LlamaModelParams) -> Result<LlamaModel, LoadError> {
    let llama = llama(path)?;
    File::open(path).map_err(|source| LoadError::Read {
        path: path.to_owned(),
        source,
    })?;
    let (model, complaints) =
        ffi::collect_errors(|| LlamaModel::load_from_file(llama, path, params));
    model.map_err(|error| LoadError::Model {
        path: path.to_owned(),
        message: complaints.unwrap_or_else(|| error.to_string()),
    })
}
