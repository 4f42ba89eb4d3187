//! Sources: the configuration, graph or model that a path on the command line stands for. A model
//! is served on a built-in graph that suits it.

mod files;
mod graph;
mod knobs;
mod models;
mod onnx;
mod options;
mod quantized;
mod ready;
mod repository;
mod sampling;
mod tensors;
pub(super) mod triton;
mod weights;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use graphmill_llm::{ModelKind, kind_of};

use files::{GRAPH_FILE, OTHER_WEIGHTS, files_in, graph_in, is_onnx, lists_graphs, models_in};

pub(super) use files::{entries, has_ending, is_model};
pub(super) use models::models_in_folder;
pub(super) use options::ModelFlags;
pub(super) use ready::{PendingModel, text as text_of_wanted};
pub(super) use repository::{all_in, folder_of, named_in, reader};
pub(super) use sampling::SamplingFlags;

use super::archive;
use crate::{
    config::{self, Config, GraphEntry, Maker},
    hub::{Cache, ModelName, Order},
};

/// Default name of a configuration file.
const CONFIG_FILE: &str = "config.json";
/// Files that can be served, for messages.
const SERVED: &str = "a model (`.gguf`, `.onnx`), a graph (`.pbtxt`), a `config.json`, an archive \
                      (`.gmar`), a `config.properties`";

/// The thing to serve, as a path or a name on the command line means it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServeSource {
    /// The graphs of this `config.json`.
    Configuration(PathBuf),
    /// A graph file, and the folder that its paths are relative to.
    Graph { file: PathBuf, base: PathBuf },
    /// A model file, on a built-in graph.
    Model(PathBuf),
    /// A model on Hugging Face, on a built-in graph.
    Named(Order),
    /// The graphs and models in the folders of this one.
    Repository(PathBuf),
    /// The models in this folder, each found and dropped while the server runs.
    Models(PathBuf),
}

impl ServeSource {
    /// Determines the kind of `path`. The error lists the kinds that are possible.
    pub(super) fn from_path(path: &Path) -> Result<Self, String> {
        if path.is_dir() {
            return Self::in_folder(path);
        }
        if path.extension().is_some_and(|ending| ending == "mar") {
            return Err(format!(
                "cannot serve `{}`: archives of TorchServe contain Python code; \
                 docs/reference/torchserve.md shows how to serve their models",
                path.display()
            ));
        }
        if !path.exists() {
            if let Some(name) = ModelName::from_path(path) {
                return Ok(Self::Named(Order {
                    name,
                    folder: None,
                    again: false,
                }));
            }
            let here = env::current_dir().unwrap_or_default();
            let relative = format!(" (relative to `{}`)", here.display());
            let relative = if path.is_relative() { &*relative } else { "" };
            return Err(format!(
                "cannot find `{}`{relative}: expected {SERVED}, a folder with one of them, or the \
                 name of a model, `org/repo`",
                path.display()
            ));
        }
        if is_model(path) {
            return Ok(Self::Model(path.to_owned()));
        }
        match path.extension().and_then(|ending| ending.to_str()) {
            Some(archive::ENDING) => Self::from_path(&archive::unpacked(path)?),
            Some("pbtxt") if path.ends_with(triton::FILE) => Err(explain_triton(path)),
            Some("json") => Ok(Self::Configuration(path.to_owned())),
            Some("pbtxt") => Ok(Self::Graph {
                file: path.to_owned(),
                base: path.parent().unwrap_or(Path::new("")).to_owned(),
            }),
            _ => Err(format!(
                "cannot serve `{}`: expected {SERVED}",
                path.display()
            )),
        }
    }

    /// Determines the kind of a path that may also be the name of a model. If its parent folder
    /// exists, it is a path.
    pub(super) fn given(path: &Path) -> Result<Self, String> {
        let source = Self::from_path(path)?;
        let parent = path.parent().filter(|parent| parent.is_dir());
        match (&source, parent) {
            (Self::Named(order), Some(parent)) => Err(format!(
                "`{}` has no `{}`; for the model on Hugging Face, write `hf.co/{}`",
                parent.display(),
                path.file_name().unwrap_or_default().display(),
                order.name
            )),
            _ => Ok(source),
        }
    }

    /// Returns the source of the models in `root`, a folder for `--models_dir`.
    pub(super) fn models(root: &Path) -> Result<Self, String> {
        match fs::read_dir(root) {
            Ok(_) => Ok(Self::Models(root.to_owned())),
            Err(error) => Err(format!(
                "cannot read the folder `{}`: {error}",
                root.display()
            )),
        }
    }

    /// Returns the source of the folders in `root`, a model repository.
    pub(super) fn repository(root: &Path) -> Result<Self, String> {
        if root.is_dir() {
            Ok(Self::Repository(root.to_owned()))
        } else {
            Err(format!("`{}` is not a folder", root.display()))
        }
    }

    /// Determines what to serve from a folder: its configuration if that lists graphs, else its
    /// graph, else its model. Model folders may have a `config.json` of another kind.
    fn in_folder(folder: &Path) -> Result<Self, String> {
        let config = folder.join(CONFIG_FILE);
        if lists_graphs(&config) {
            return Ok(Self::Configuration(config));
        }
        if let Some(file) = graph_in(folder) {
            let base = folder.to_owned();
            return Ok(Self::Graph { file, base });
        }
        let triton = folder.join(triton::FILE);
        if triton.is_file() {
            return Err(explain_triton(&triton));
        }
        let models = models_in(folder)?;
        let others = files_in(folder, |path| has_ending(path, &OTHER_WEIGHTS))?;
        match models.as_slice() {
            [model] => Self::from_path(model),
            [] if !others.is_empty() => Err(format!(
                "`{}` is a model in another format: docs/guide/get-a-model.md shows how to get a `.gguf` file of it",
                others[0].display()
            )),
            [] if config.is_file() => Ok(Self::Configuration(config)),
            [] => Err(format!(
                "there is nothing to serve in `{}`: it has no model (`.gguf`, `.onnx`), no \
                 `{GRAPH_FILE}`, no `{CONFIG_FILE}` and no archive (`.gmar`)",
                folder.display()
            )),
            several => {
                let names: Vec<String> = several
                    .iter()
                    .filter_map(|model| model.file_name())
                    .map(|name| format!("`{}`", name.to_string_lossy()))
                    .collect();
                Err(format!(
                    "`{}` has {} files that could be served; name one of them: {}",
                    folder.display(),
                    several.len(),
                    names.join(", ")
                ))
            }
        }
    }
}

/// Explains how to serve the Triton model with this configuration.
fn explain_triton(file: &Path) -> String {
    let whole = whole(file.parent().unwrap_or(Path::new("")));
    let name = whole.file_name().unwrap_or_default().display();
    let root = whole.parent().unwrap_or(Path::new("/")).display();
    format!(
        "`{}` belongs to a model of Triton: `graphmill serve --model_repository_path {root} \
         --model_name {name}` serves it",
        file.display()
    )
}

/// Resolves the path of a folder, if that is possible. An empty path means the current folder.
fn whole(folder: &Path) -> PathBuf {
    let whole = Path::new(".").join(folder).canonicalize();
    whole.unwrap_or_else(|_| folder.to_owned())
}

/// Returns the configuration of a single graph file. The graph is named by `name`, by the file
/// itself, or by its folder.
pub(super) fn one_graph(file: &Path, base: &Path, name: Option<&str>) -> Result<Config, String> {
    let folder = whole(base);
    let of_file = match file.file_name() {
        Some(usual) if usual == GRAPH_FILE => folder.file_name(),
        _ => file.file_stem(),
    };
    let entry = GraphEntry::new(named(name, of_file)?, base.to_owned(), file.to_owned());
    Ok(alone(entry))
}

/// Returns the configuration of a model on its built-in graph.
pub(super) fn one_model(
    model: &Path,
    name: Option<&str>,
    flags: &ModelFlags,
) -> Result<Config, String> {
    let archived = archive::name_of(model);
    let name = named(name.or(archived.as_deref()), model.file_stem())?;
    if flags.quantization().is_some() {
        flags.warn_of_dtype("use --quantization");
        let base = model.parent().unwrap_or(Path::new("")).to_owned();
        let wanted = PendingModel::File(model.to_owned());
        return Ok(later(name, base, wanted, flags));
    }
    flags.warn_of_dtype(
        "the file determines the type of the weights (`--quantization` and `graphmill quantize` \
         make a copy with another)",
    );
    Ok(alone(entry_of(model, name, text(model, flags)?)))
}

/// Returns the text of the built-in graph for a model.
pub(super) fn text(model: &Path, flags: &ModelFlags) -> Result<String, String> {
    if !is_onnx(model) {
        return graph::text(model, kind(model, flags)?, flags);
    }
    match flags.any()? {
        None => onnx::text(model),
        Some(flag) => Err(format!(
            "`--{flag}` is for language models, and `{}` is a model in ONNX",
            model.display()
        )),
    }
}

/// Prefix of the name of a graph without a file.
const OF_MODEL: &str = "graph of ";

/// Returns the entry of a model whose graph has this text.
fn entry_of(model: &Path, name: String, text: String) -> GraphEntry {
    let base = model.parent().unwrap_or(Path::new("")).to_owned();
    let file = PathBuf::from(format!("{OF_MODEL}{}", model.display()));
    GraphEntry {
        text: Some(text.into()),
        ..GraphEntry::new(name, base, file)
    }
}

/// Returns the configuration of a model that is downloaded when its graph is loaded. Requests name
/// it by its repository.
pub(super) fn one_named(
    order: &Order,
    name: Option<&str>,
    flags: &ModelFlags,
) -> Result<Config, String> {
    let repository = &order.name.repository;
    let name = named(name, Some(repository.as_ref()))?;
    // Errors of flags are reported before anything is downloaded.
    flags.any()?;
    if let Some(wanted) = &order.name.wanted {
        flags.warn_of_dtype(&format!("the name selects the weights of `{wanted}`"));
    } else if flags.quantization().is_some() {
        flags.warn_of_dtype("--quantization selects the weights");
    }
    let base = Cache::from_environment()?.folder(repository);
    Ok(later(name, base, PendingModel::Named(order.clone()), flags))
}

/// Returns the configuration of a model that is prepared when its graph is loaded.
fn later(name: String, base: PathBuf, wanted: PendingModel, flags: &ModelFlags) -> Config {
    let file = PathBuf::from(format!("{OF_MODEL}{name}"));
    let flags = flags.clone();
    let maker = Maker::new(move || text_of_wanted(&wanted, &flags));
    alone(GraphEntry {
        maker: Some(maker),
        ..GraphEntry::new(name, base, file)
    })
}

/// Returns the kind of a model, from the command line or else from its file.
fn kind(model: &Path, flags: &ModelFlags) -> Result<ModelKind, String> {
    match flags.task {
        Some(task) => Ok(task.kind()),
        None => kind_of(model).map_err(|error| error.to_string()),
    }
}

fn alone(graph: GraphEntry) -> Config {
    Config {
        graphs: vec![graph],
        ..Config::default()
    }
}

/// Returns the name of a graph: the given one, or else the name of its file.
fn named(given: Option<&str>, file: Option<&std::ffi::OsStr>) -> Result<String, String> {
    let name = match (given, file) {
        (Some(name), _) => name.to_owned(),
        (None, Some(file)) => file.to_string_lossy().into_owned(),
        (None, None) => return Err("the name is missing: give --model_name".into()),
    };
    match config::wrong_name(&name) {
        Some(why) => Err(format!(
            "the name `{name}` {why}: give another with --model_name"
        )),
        None => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("writable");
            fs::write(file, text).expect("writable");
        }
        folder
    }

    #[test]
    fn a_folder_is_served_by_what_says_most() {
        let lists = r#"{"model_config_list": []}"#;
        for (files, expected) in [
            (&[("a.gguf", ""), ("config.json", "{}")][..], "a.gguf"),
            (&[("a.gguf", ""), ("config.json", lists)], "config.json"),
            (&[("a.gguf", ""), ("graph.pbtxt", "")], "graph.pbtxt"),
            (&[("1/graph.pbtxt", "")], "1/graph.pbtxt"),
            (&[("a.onnx", ""), ("config.json", "{}")], "a.onnx"),
            (&[("a.onnx", ""), ("b.gguf", "")], "b.gguf"),
            (
                &[
                    ("m-00001-of-00002.gguf", ""),
                    ("m-00002-of-00002.gguf", ""),
                    ("mmproj-m.gguf", ""),
                ],
                "m-00001-of-00002.gguf",
            ),
            (&[("config.json", "{")], "config.json"),
        ] {
            let folder = folder(files);
            let found = match ServeSource::from_path(folder.path()).expect("something") {
                ServeSource::Configuration(file)
                | ServeSource::Graph { file, .. }
                | ServeSource::Model(file)
                | ServeSource::Models(file)
                | ServeSource::Repository(file) => file,
                ServeSource::Named(order) => panic!("{order:?}"),
            };
            assert_eq!(found, folder.path().join(expected));
        }
    }

    #[test]
    fn what_is_not_there_is_named() {
        let two = folder(&[("a.gguf", ""), ("b.gguf", "")]);
        let none = folder(&[]);
        let other = folder(&[("a.bin", "")]);
        for (path, said) in [
            (
                two.path().to_owned(),
                "name one of them: `a.gguf`, `b.gguf`",
            ),
            (none.path().to_owned(), "it has no model"),
            (none.path().join("m.gguf"), "cannot find"),
            (other.path().join("a.bin"), "cannot serve"),
        ] {
            let error = ServeSource::from_path(&path).expect_err("nothing");
            assert!(error.contains(said), "{error}");
        }
    }
}
