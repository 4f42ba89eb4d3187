//! Loads the adapters of a spec.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use super::ffi::{self, LoadedAdapter};
use super::gguf;
use super::model::{Weights, c_path};
use crate::model::files::FileState;
use crate::protocol::LoadError;
use crate::settings::LlmEngineSpec;

/// Loads all adapters. Only contexts that are created afterwards can use them.
pub(super) fn load<'a>(
    spec: &LlmEngineSpec,
    weights: &'a Weights,
) -> Result<Vec<LoadedAdapter<'a>>, LoadError> {
    let model = &weights.model;
    let experts = model.number("expert_count").unwrap_or(0);
    let load = |adapter: &crate::settings::AdapterSpec| {
        let path = &adapter.path;
        FileState::read(path)?;
        let file = File::open(path).map_err(|source| LoadError::read(path, source))?;
        let refused = |message: String| {
            let (name, path) = (&adapter.name, path.display());
            let message = format!(
                "has an adapter `{name}` that does not fit the model (`{path}`): {message}"
            );
            LoadError::spec("lora_adapters", message)
        };
        let opened = path_of(&file, path);
        gguf::check_adapter(&opened, experts).map_err(|error| match error {
            LoadError::Model { message, .. } => refused(message),
            other => other,
        })?;
        let opened = c_path(&opened)?;
        let changing = &weights.layout.creating;
        let (loaded, heard) =
            ffi::listen(|| LoadedAdapter::load(&weights.model, changing, &opened));
        loaded.ok_or_else(|| refused(heard.complaint_or("llama.cpp cannot load it")))
    };
    spec.adapters.iter().map(load).collect()
}

/// Returns a path that names an opened file even after its own path names another one. Systems
/// without such paths get the file's own.
fn path_of(file: &File, path: &Path) -> PathBuf {
    let opened = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    if opened.exists() {
        opened
    } else {
        path.to_owned()
    }
}
