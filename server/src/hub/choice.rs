//! Selection of the files of a repository that belong to a model.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use graphmill_llm::{is_first_part, model_parts};

use super::{ModelName, bytes};
use crate::telemetry::log;

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RepositoryFile {
    pub(super) path: String,
    pub(super) size: u64,
    /// Checksum; `None` for a local file, or if the hub reports none.
    pub(super) sum: Option<Sum>,
}

/// The checksum of a file. Its hexadecimal digits are the file's name in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    Sha256(String),
    /// Checksum of a file that git stores itself.
    GitBlob(String),
}

/// The files of a model.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChosenFiles<'a> {
    /// All parts of the model, in order.
    pub(super) model: Vec<&'a RepositoryFile>,
    pub(super) projector: Option<&'a RepositoryFile>,
}

/// Default quantization, if a name selects none.
const USUAL: &str = "Q4_K_M";

/// Types of projectors in order of preference. Projectors are small, and their quality matters.
const PROJECTOR_TYPES: [&str; 3] = ["F16", "BF16", "Q8_0"];

/// Maximum number of model files in a repository.
const MAX_MODELS: usize = 10_000;

/// Maximum number of files that a message lists.
const LISTED: usize = 30;

/// Selects the files of a model: the quantization or file in the name; by default `Q4_K_M`, or else
/// the only model.
pub(super) fn choose<'a>(
    files: &'a [RepositoryFile],
    name: &ModelName,
) -> Result<ChosenFiles<'a>, String> {
    let (projectors, models): (Vec<_>, Vec<_>) = files
        .iter()
        .filter(|file| is_gguf(file))
        .partition(|file| is_projector(file));
    let repository = &name.repository;
    if models.len() > MAX_MODELS {
        return Err(format!(
            "`{repository}` lists more than {MAX_MODELS} GGUF files"
        ));
    }
    let is_first = |file: &&&RepositoryFile| is_first_part(Path::new(&file.path));
    let firsts: Vec<&RepositoryFile> = models.iter().filter(is_first).copied().collect();
    let mut usable = firsts.clone();
    usable.retain(|file| !base(&file.path).contains("imatrix"));
    let found = match &name.wanted {
        Some(wanted) => named(&firsts, wanted).or_else(|| find_type(&firsts, wanted)),
        None => find_type(&usable, USUAL).or(match usable.as_slice() {
            [only] => Some(*only),
            _ => None,
        }),
    };
    let Some(first) = found else {
        if usable.is_empty() {
            return Err(format!(
                "`{repository}` has no GGUF file: repositories whose name ends with -GGUF have \
                 some, and docs/guide/get-a-model.md shows how to convert a model"
            ));
        }
        let wanted = name.wanted.as_deref().unwrap_or(USUAL);
        let shown = usable.iter().take(LISTED).map(|file| {
            let (path, size) = (log::shown(&file.path), bytes(total_size(file, files)));
            format!("\n  {repository}:{path} ({size})")
        });
        let shown: String = shown.collect();
        let more = match usable.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!("\n  and {more} more"),
        };
        return Err(format!(
            "`{repository}` has no `{wanted}`; name one of these, or its quantization:{shown}{more}"
        ));
    };
    let mut model = Vec::new();
    for part in model_parts(Path::new(&first.path)) {
        let found = models.iter().find(|file| Path::new(&file.path) == part);
        model.push(*found.ok_or_else(|| {
            let part = part.display();
            format!("`{repository}` lacks the part `{part}` of the model")
        })?);
    }
    let projector = PROJECTOR_TYPES
        .iter()
        .find_map(|kind| find_type(&projectors, kind))
        .or(projectors.first().copied());
    Ok(ChosenFiles { model, projector })
}

/// Finds a projector by its path or its name.
pub(super) fn projector<'a>(
    files: &'a [RepositoryFile],
    wanted: &str,
) -> Option<&'a RepositoryFile> {
    let all: Vec<_> = files.iter().filter(|file| is_projector(file)).collect();
    named(&all, wanted)
}

/// Returns true if there is a model among the files.
pub(super) fn has_model(files: &[RepositoryFile]) -> bool {
    let mut files = files.iter();
    files.any(|file| is_gguf(file) && !is_projector(file))
}

fn is_gguf(file: &RepositoryFile) -> bool {
    file.path.to_ascii_lowercase().ends_with(".gguf")
}

/// Returns true if a file is a projector, by its name.
pub(super) fn is_projector(file: &RepositoryFile) -> bool {
    is_gguf(file) && base(&file.path).starts_with("mmproj")
}

/// Returns the total size of all parts of a model, in bytes.
fn total_size(first: &RepositoryFile, files: &[RepositoryFile]) -> u64 {
    let parts: HashSet<PathBuf> = model_parts(Path::new(&first.path)).into_iter().collect();
    let is_part = |file: &&RepositoryFile| parts.contains(Path::new(&file.path));
    files.iter().filter(is_part).map(|file| file.size).sum()
}

fn base(path: &str) -> String {
    let base = path.rsplit('/').next().unwrap_or(path);
    base.to_ascii_lowercase()
}

/// Returns the file with this path, or the only file with this name in any folder.
fn named<'a>(files: &[&'a RepositoryFile], wanted: &str) -> Option<&'a RepositoryFile> {
    let mut found = files.iter().filter(|file| {
        let path = file.path.strip_suffix(wanted);
        path.is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
    });
    let exact = files.iter().find(|file| file.path == wanted);
    exact
        .or(found.next().filter(|_| found.next().is_none()))
        .copied()
}

/// Returns the file whose name contains a type of weights as a word. If several do, the shortest
/// name counts, which is the plain one.
fn find_type<'a>(files: &[&'a RepositoryFile], kind: &str) -> Option<&'a RepositoryFile> {
    let kind = kind.to_ascii_uppercase();
    let has_it = |file: &&&RepositoryFile| {
        let path = file.path.to_ascii_uppercase();
        let mut words = path.match_indices(&kind);
        words.any(|(at, _)| {
            let is_end =
                |it: Option<u8>| !it.is_some_and(|it| it.is_ascii_alphanumeric() || it == b'_');
            let bytes = path.as_bytes();
            let before = at.checked_sub(1).map(|at| bytes[at]);
            is_end(before) && is_end(bytes.get(at + kind.len()).copied())
        })
    };
    let fitting = files.iter().filter(has_it);
    fitting.min_by_key(|file| file.path.len()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[&str]) -> Vec<RepositoryFile> {
        let file = |path: &&str| RepositoryFile {
            path: (*path).to_owned(),
            size: 1 << 30,
            sum: None,
        };
        paths.iter().map(file).collect()
    }

    fn chosen(paths: &[&str], name: &str) -> Result<(Vec<String>, Option<String>), String> {
        let files = files(paths);
        let choice = choose(&files, &name.parse().expect("a name"))?;
        let path = |file: &RepositoryFile| file.path.clone();
        let model = choice.model.iter().map(|file| path(file)).collect();
        Ok((model, choice.projector.map(path)))
    }

    #[test]
    fn the_named_quantization_comes_first_then_the_usual_then_the_only_one() {
        let all = [
            "m-Q8_0.gguf",
            "m-UD-Q4_K_M.gguf",
            "m-Q4_K_M.gguf",
            "m-Q4_K_S.gguf",
            "imatrix.gguf",
        ];
        for (name, path) in [
            ("a/b", "m-Q4_K_M.gguf"),
            ("a/b:q8_0", "m-Q8_0.gguf"),
            ("a/b:UD-Q4_K_M", "m-UD-Q4_K_M.gguf"),
            ("a/b:m-Q4_K_S.gguf", "m-Q4_K_S.gguf"),
        ] {
            assert_eq!(chosen(&all, name), Ok((vec![path.to_owned()], None)));
        }
        let only = Ok((vec!["m-IQ2_M.gguf".to_owned()], None));
        assert_eq!(
            chosen(&["m-IQ2_M.gguf", "imatrix.gguf", "README.md"], "a/b"),
            only
        );
        for (paths, name, said) in [
            (&all[..], "a/b:Q4_K", "has no `Q4_K`"),
            (&all, "a/b:Q2_K", "\n  a/b:m-Q8_0.gguf (1.1 GB)"),
            (
                &["m-Q8_0.gguf", "m-Q6_K.gguf"],
                "a/b",
                "has no `Q4_K_M`; name one of",
            ),
            (&["model.safetensors"], "a/b", "has no GGUF file"),
            (
                &["m-Q8_0-00001-of-00002.gguf"],
                "a/b",
                "lacks the part `m-Q8_0-00002-of",
            ),
        ] {
            let error = chosen(paths, name).expect_err("nothing");
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn all_parts_are_taken_and_the_best_projector() {
        let all = [
            "Q4_K_M/m-Q4_K_M-00002-of-00002.gguf",
            "Q4_K_M/m-Q4_K_M-00001-of-00002.gguf",
            "Q8_0/m-Q8_0-00001-of-00001.gguf",
            "mmproj-F32.gguf",
            "mmproj-model-f16.gguf",
        ];
        let parts = [
            "Q4_K_M/m-Q4_K_M-00001-of-00002.gguf",
            "Q4_K_M/m-Q4_K_M-00002-of-00002.gguf",
        ];
        let projector = Some("mmproj-model-f16.gguf".to_owned());
        let expected = Ok((parts.map(str::to_owned).to_vec(), projector));
        assert_eq!(chosen(&all, "a/b"), expected);
        assert_eq!(chosen(&all, "a/b:Q4_K_M"), expected);
    }
}
