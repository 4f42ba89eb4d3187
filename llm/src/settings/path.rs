//! Finding the model file that a graph names.

use std::path::{Path, PathBuf};

use super::{BackendKind, SpecError};

/// Prefix of the names of projector files.
const PROJECTOR: &str = "mmproj";

/// Finds the model file for `models_path`: a `.gguf` file (or a `.script.json` file), or a folder
/// with exactly one `.gguf` file, apart from projectors (`mmproj*.gguf`). A relative path starts at
/// `base_dir`.
///
/// # Errors
/// [`SpecError`] with the expected and the found files.
pub fn resolve_model_path(base_dir: &Path, models_path: &str) -> Result<PathBuf, SpecError> {
    let mut tried = vec![base_dir.join(models_path), PathBuf::from(models_path)];
    let Some(found) = tried.iter().find(|path| path.exists()).cloned() else {
        tried.dedup();
        return Err(SpecError::Missing {
            models_path: models_path.to_owned(),
            tried,
        });
    };
    if found.is_dir() {
        return only_model_in(&found);
    }
    if is_gguf(&found) || BackendKind::for_model(&found) == BackendKind::Scripted {
        Ok(found)
    } else {
        let found = found.display();
        Err(SpecError::ModelPath(format!(
            "`{found}` is neither a folder nor a `.gguf` file"
        )))
    }
}

fn only_model_in(folder: &Path) -> Result<PathBuf, SpecError> {
    let shown = folder.display();
    let mut models = gguf_files(folder)
        .map_err(|error| SpecError::ModelPath(format!("cannot list `{shown}`: {error}")))?;
    models.retain(|path| !is_projector(path));
    match models.len() {
        0 => Err(SpecError::NoModel {
            folder: folder.to_owned(),
        }),
        1 => Ok(models.remove(0)),
        count => {
            let names = models.iter().filter_map(|path| path.file_name());
            let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
            let names = names.join(", ");
            Err(SpecError::ModelPath(format!(
                "`{shown}` holds {count} `.gguf` files ({names}): name one of them"
            )))
        }
    }
}

/// Returns the only projector (`mmproj*.gguf`) in the folder of a model; `None` if there are
/// several, because one must be named then.
pub fn projector_beside(model: &Path) -> Option<PathBuf> {
    let mut found = gguf_files(model.parent()?).ok()?;
    found.retain(|path| is_projector(path) && path != model);
    if found.len() > 1 {
        tracing::warn!(
            model = %model.display(),
            "{} projectors (`{PROJECTOR}*.gguf`) are in the model's folder, and none is used: name one as `mmproj`",
            found.len()
        );
        return None;
    }
    found.pop()
}

/// Returns the `.gguf` files of a folder, in order.
fn gguf_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if is_gguf(&path) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn is_projector(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(PROJECTOR)
}

fn is_gguf(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}
