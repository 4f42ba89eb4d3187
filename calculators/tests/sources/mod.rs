//! The sources of the crates whose nodes are registered here.

use std::path::{Path, PathBuf};

/// The source folder of a module that is a crate or a folder at the top of one.
pub(crate) fn folder_of(module: &str) -> PathBuf {
    let (package, folder) = module.split_once("::").unwrap_or((module, ""));
    let package = package.trim_start_matches("graphmill_");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.join(package).join("src").join(folder)
}

/// All their source files.
pub(crate) fn all_files() -> Vec<PathBuf> {
    let folders = ["graphmill_calculators", "graphmill_mediapipe"].map(folder_of);
    folders
        .iter()
        .flat_map(|folder| rust_files(folder))
        .collect()
}

/// The source files of a folder and of those in it, by name.
pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a source folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}
