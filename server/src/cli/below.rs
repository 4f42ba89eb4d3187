//! The files of one kind in folders that a command line names.

use std::path::{Path, PathBuf};

/// Files among those named, and files below the folders among them, whose names end with `ending`.
///
/// # Errors
/// A folder that has none.
pub(super) fn files(named: &[PathBuf], ending: &str) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let found = in_folder(path, ending);
        if found.is_empty() {
            return Err(format!(
                "there is no `*{ending}` below `{}`",
                path.display()
            ));
        }
        files.extend(found);
    }
    Ok(files)
}

/// The files with this ending in a folder and the folders in it, by path; hidden ones and links are
/// left out.
pub(super) fn in_folder(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if name.starts_with('.') {
            continue;
        }
        if is_folder {
            found.extend(in_folder(&path, ending));
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}
