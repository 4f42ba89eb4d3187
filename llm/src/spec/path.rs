//! Finding the model file that a graph names.

use std::path::{Path, PathBuf};

use super::{BackendKind, SpecError};

/// Finds the model file that `models_path` means: a `.gguf` file (or a `.script.json` file), or a
/// folder that holds exactly one `.gguf` file. A relative path starts at `base_dir`.
///
/// # Errors
/// [`SpecError`] says what was looked for and what was found instead.
pub fn resolve_model_path(base_dir: &Path, models_path: &str) -> Result<PathBuf, SpecError> {
    let joined = base_dir.join(models_path);
    let found = if joined.exists() {
        joined
    } else {
        let plain = PathBuf::from(models_path);
        if !plain.exists() {
            let mut tried = vec![joined, plain];
            tried.dedup();
            return Err(SpecError::Missing {
                models_path: models_path.to_owned(),
                tried,
            });
        }
        plain
    };
    if found.is_dir() {
        return only_model_in(&found);
    }
    if is_gguf(&found) || BackendKind::of(&found) == BackendKind::Scripted {
        Ok(found)
    } else {
        Err(SpecError::NotAModel { path: found })
    }
}

fn only_model_in(folder: &Path) -> Result<PathBuf, SpecError> {
    let unreadable = |error: std::io::Error| SpecError::Unreadable {
        folder: folder.to_owned(),
        message: error.to_string(),
    };
    let mut models = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if is_gguf(&path) && path.is_file() {
            models.push(path);
        }
    }
    models.sort();
    match models.len() {
        0 => Err(SpecError::NoModel {
            folder: folder.to_owned(),
        }),
        1 => Ok(models.remove(0)),
        _ => {
            let files = models
                .iter()
                .filter_map(|path| path.file_name())
                .map(|name| name.to_string_lossy().into_owned())
                .collect();
            Err(SpecError::SeveralModels {
                folder: folder.to_owned(),
                files,
            })
        }
    }
}

fn is_gguf(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}
