//! The reference texts that are not in this repository.

use std::path::{Path, PathBuf};

/// Their folder: what `GRAPHMILL_SHARED` names, or `../shared` beside the repository. It may be
/// absent.
pub(crate) fn shared() -> PathBuf {
    std::env::var_os("GRAPHMILL_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
        PathBuf::from,
    )
}
