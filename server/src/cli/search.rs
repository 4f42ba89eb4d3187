//! Search for files by extension in folders that a command line names.

use std::path::{Path, PathBuf};

/// Returns the named files, and all files below the named folders whose names end with `ending`.
///
/// # Errors
/// If a folder has no such file.
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
                "no file `*{ending}` in `{}` or its subfolders",
                path.display()
            ));
        }
        files.extend(found);
    }
    Ok(files)
}

/// Returns the files with this extension in a folder and its subfolders, sorted by path. Hidden
/// files and links are skipped.
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
