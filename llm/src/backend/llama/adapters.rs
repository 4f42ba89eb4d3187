//! Loads the adapters of a spec.

use std::ffi::CString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;

use super::ffi::{self, Adapter};
use super::model::Weights;
use crate::model::files::FileState;
use crate::protocol::LoadError;
use crate::spec::LlmEngineSpec;

/// Loads all adapters. Only contexts that are created afterwards can use them.
pub(super) fn load<'a>(
    spec: &LlmEngineSpec,
    weights: &'a Weights,
) -> Result<Vec<Adapter<'a>>, LoadError> {
    let load = |adapter: &crate::spec::AdapterSpec| {
        let path = &adapter.path;
        FileState::read(path)?;
        File::open(path).map_err(|source| LoadError::Read {
            path: path.clone(),
            source,
        })?;
        let refused = |message: String| LoadError::Spec {
            field: "lora_adapters",
            message: format!(
                "has an adapter `{}` that does not fit the model (`{}`): {message}",
                adapter.name,
                path.display()
            ),
        };
        let file = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| refused("the path has a NUL character".to_owned()))?;
        let changing = &weights.layout.creating;
        let (loaded, heard) = ffi::listen(|| Adapter::load(&weights.model, changing, &file));
        loaded.ok_or_else(|| {
            let complaint = heard.complaint();
            refused(complaint.unwrap_or_else(|| "llama.cpp cannot load it".to_owned()))
        })
    };
    spec.adapters.iter().map(load).collect()
}
