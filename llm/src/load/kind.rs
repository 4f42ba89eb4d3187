//! What a model is for, as its file says.

use std::path::Path;

use crate::model::ModelKind;
use crate::protocol::LoadError;

/// Reads from the header of a model file what the model is for. A scripted model generates.
///
/// # Errors
/// [`LoadError`] for a file that cannot be read or is no model.
#[cfg_attr(
    not(feature = "llama"),
    expect(clippy::unnecessary_wraps, reason = "as with llama.cpp")
)]
pub fn kind_of(path: &Path) -> Result<ModelKind, LoadError> {
    #[cfg(feature = "llama")]
    if crate::spec::BackendKind::of(path) == crate::spec::BackendKind::Llama {
        return crate::backend::llama::kind_of(path);
    }
    let _ = path;
    Ok(ModelKind::Generates)
}
