//! The choice of a model's file, by its path or by the name and version of a servable.

use std::fs;
use std::path::{Path, PathBuf};

use graphmill_engine::{Error, FileSource, Result};

use super::runtime::Runtime;

/// Extension of the file's name.
const EXTENSION: &str = "onnx";
/// Option that names a file or a folder.
pub(super) const MODEL: &str = "model_path";
/// Option that names a servable.
pub(super) const SERVABLE: &str = "servable_name";
/// Option that chooses one of its versions.
const VERSION: &str = "servable_version";

/// The file and the runtime from which an [`OnnxModel`](super::OnnxModel) is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OnnxSpec {
    /// Path of its file, or its servable and version.
    pub(super) place: ModelPlace,
    /// Library that computes the model.
    pub(super) runtime: Runtime,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ModelPlace {
    /// A `.onnx` file, or a folder with one. Resolved specs are always files.
    File(PathBuf),
    /// A folder beside the graph, with a folder for each version that has a `.onnx` file in it.
    Servable {
        /// Name of the folder beside the graph.
        name: String,
        /// Version of the model; 0 is the highest one.
        version: u64,
    },
}

impl OnnxSpec {
    /// Creates a spec for a `.onnx` file, or for a folder with one.
    pub(super) fn file(path: impl Into<PathBuf>, runtime: Runtime) -> Self {
        let place = ModelPlace::File(path.into());
        Self { place, runtime }
    }

    /// Returns the path of the file, after its folders were searched.
    pub(super) fn resolve(&self, files: &dyn FileSource) -> Result<PathBuf> {
        let (path, option) = match &self.place {
            ModelPlace::File(path) => (files.resolve(path), MODEL),
            ModelPlace::Servable { name, version } => {
                let folder = files.resolve(Path::new(name));
                (version_of(&folder, *version)?, SERVABLE)
            }
        };
        let file = if path.is_dir() {
            only_model(&path).map_err(|error| error.with_field(option))?
        } else {
            path
        };
        let is = |extension: &str| {
            file.extension()
                .is_some_and(|it| it.eq_ignore_ascii_case(extension))
        };
        if is("xml") || is("bin") {
            return Err(not_ir(&file).with_field(option));
        }
        Ok(files.resolve(&file))
    }
}

/// Returns the folder of a version: the highest one for 0.
fn version_of(folder: &Path, version: u64) -> Result<PathBuf> {
    if version > 0 {
        let path = folder.join(version.to_string());
        if folder.is_dir() && !path.is_dir() {
            let message = format!("`{}` has no version {version}", folder.display());
            return Err(Error::not_found(message).with_field(VERSION));
        }
        return Ok(path);
    }
    let names = entries(folder).map_err(|error| error.with_field(SERVABLE))?;
    let numbers = names.iter().filter_map(|path| {
        let number = path.file_name()?.to_str()?.parse::<u64>().ok()?;
        path.is_dir().then_some((number, path))
    });
    let newest = numbers.max_by_key(|(number, _)| *number);
    newest.map(|(_, path)| path.clone()).ok_or_else(|| {
        let message = format!(
            "`{}` has no folder for a version, such as `1`",
            folder.display()
        );
        Error::not_found(message).with_field(SERVABLE)
    })
}

/// Returns the only model of a folder.
fn only_model(folder: &Path) -> Result<PathBuf> {
    let names = entries(folder)?;
    let with = |extension: &str| {
        let mut all = names
            .iter()
            .filter(|path| path.extension().is_some_and(|it| it == extension));
        (all.next().cloned(), all.next().is_some())
    };
    match with(EXTENSION) {
        (Some(file), false) => Ok(file),
        (Some(_), true) => Err(Error::invalid(format!(
            "`{}` has more than one `.onnx` file: name the file",
            folder.display()
        ))),
        (None, _) => Err(match with("xml") {
            (Some(file), _) => not_ir(&file),
            (None, _) => Error::not_found(format!("`{}` has no `.onnx` file", folder.display())),
        }),
    }
}

fn not_ir(file: &Path) -> Error {
    Error::invalid(format!(
        "`{}` is OpenVINO's format, which is not supported: export the model as ONNX",
        file.display()
    ))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder)?;
        entries.map(|entry| Ok(entry?.path())).collect()
    };
    read().map_err(|error| {
        let message = format!("cannot read the folder `{}`: {error}", folder.display());
        Error::not_found(message).with_source(error)
    })
}
