//! Files that can be served, and how folders are searched for them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use graphmill_engine::read_text;
use graphmill_llm::{BackendKind, is_first_part};

use crate::cli::archive;

/// Default name of a graph file.
pub(super) const GRAPH_FILE: &str = "graph.pbtxt";

/// Returns the graph file of a folder.
pub(super) fn graph_in(folder: &Path) -> Option<PathBuf> {
    let versions = [folder.join(GRAPH_FILE), folder.join("1").join(GRAPH_FILE)];
    versions.into_iter().find(|file| file.is_file())
}

/// Returns true if a file is the configuration of a server, not of a model.
pub(super) fn lists_graphs(file: &Path) -> bool {
    read_text(file).is_ok_and(|text| text.contains("_config_list\""))
}

/// Returns true if a file is a model, by its name.
pub(in crate::cli) fn is_model(path: &Path) -> bool {
    has_ending(path, &["gguf", "onnx"]) || BackendKind::for_model(path) == BackendKind::Scripted
}

pub(super) fn is_onnx(path: &Path) -> bool {
    has_ending(path, &["onnx"])
}

/// File extensions of weights that other servers load.
pub(super) const OTHER_WEIGHTS: [&str; 4] = ["safetensors", "pt", "pth", "xml"];

/// File extensions to serve from a folder, in order of precedence.
const ENDINGS: [&str; 3] = ["gguf", "onnx", archive::ENDING];

/// Prefix of the file names of projectors. A projector belongs to the models in its folder.
pub(super) const PROJECTOR: &str = "mmproj";

/// Returns the precedence of a file's extension; lower is better.
pub(super) fn rank(file: &Path) -> Option<usize> {
    ENDINGS.iter().position(|it| has_ending(file, &[it]))
}

/// Returns the models of a folder, or its archives if it has no models. Projectors and later parts
/// of split models are left out.
pub(super) fn models_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut models = files_in(folder, |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        is_first_part(path) && !name.starts_with(PROJECTOR) && rank(path).is_some()
    })?;
    let first = models.iter().filter_map(|path| rank(path)).min();
    models.retain(|path| rank(path) == first);
    Ok(models)
}

/// Returns true if a path has one of these file extensions, in upper or lower case.
pub(in crate::cli) fn has_ending(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().unwrap_or_default();
    endings.iter().any(|it| ending.eq_ignore_ascii_case(it))
}

/// Returns the files of a folder that `is_wanted` selects, sorted.
pub(super) fn files_in(
    folder: &Path,
    is_wanted: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, String> {
    let mut files = entries(folder)?;
    files.retain(|path| is_wanted(path) && path.is_file());
    Ok(files)
}

/// Returns the paths of all entries of a folder, sorted.
pub(in crate::cli) fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).and_then(|entries| {
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        paths.collect::<io::Result<Vec<_>>>()
    });
    let mut paths =
        entries.map_err(|error| format!("cannot read `{}`: {error}", folder.display()))?;
    paths.sort();
    Ok(paths)
}
