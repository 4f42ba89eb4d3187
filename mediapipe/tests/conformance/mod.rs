//! Runs of the engine that the graph semantics come from, replayed on this one.
//!
//! The cases in `cases` are this project's own; more are taken from `conformance/graph` of the
//! folder that `GRAPHMILL_SHARED` names, `../shared` beside the repository by default, if it is
//! there. What has to agree: whether the graph is accepted, whether the run starts, what each
//! action gives back and whether the graph is at fault after it, which packets come out of which
//! action in which order, and how the run ends. The wording of errors is ours.

mod compare;
mod replay;
mod values;

use std::path::{Path, PathBuf};

use graphmill_mediapipe as _;
use serde_json::Value;

#[test]
fn conformance_with_own_recordings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/cases");
    agree(
        &folder,
        &files(&folder).expect("the cases are beside this file"),
    );
}

#[test]
fn conformance_with_shared_recordings() {
    let shared = std::env::var_os("GRAPHMILL_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
        PathBuf::from,
    );
    let folder = shared.join("conformance/graph");
    match files(&folder) {
        Some(files) => agree(&folder, &files),
        None => println!("skipped: there is no {}", folder.display()),
    }
}

fn files(folder: &Path) -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).ok()?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| {
            file.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort();
    Some(files)
}

fn agree(folder: &Path, files: &[PathBuf]) {
    let mut differences = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).expect("a readable case");
        let case: Value = serde_json::from_str(&text).expect("a case is JSON");
        let found = std::panic::catch_unwind(|| replay::replay(&case));
        let difference = match found {
            Ok(found) => compare::difference(&case, &found),
            Err(_) => Some("panics".to_owned()),
        };
        if let Some(difference) = difference {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            differences.push(format!("{name}: {difference}"));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {} cases of {} differ:\n{}",
        differences.len(),
        files.len(),
        folder.display(),
        differences.join("\n")
    );
}
