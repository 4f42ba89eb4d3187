//! Models of Triton's repositories. A model is a folder with a `config.pbtxt`, and with a numbered
//! folder for each version. Each version becomes a graph.

mod backend;
mod check;
mod ensemble;
mod fit;
mod graph;
mod json;
mod labels;
mod model;
mod place;
mod versions;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
    rc::Rc,
};

use graphmill_calculators::tensor::FileTensor;
use graphmill_engine::read_at_most;
use graphmill_grammar::{
    Diagnostic, SourceMap, Span, ast,
    de::from_message,
    diag::{self, has_errors},
    parse,
};

use self::{
    backend::Backend,
    graph::PlacedModel,
    model::{ModelConfig, TensorConfig},
    place::place,
};
use super::{
    ModelFlags,
    tensors::{Streams, TensorStreams},
};
use crate::config::{GraphEntry, codes::TRITON};

/// Name of the file that describes a model.
pub(in crate::cli) const FILE: &str = "config.pbtxt";

/// Name of the protobuf message, for diagnostics.
const MESSAGE: &str = "ModelConfig";

/// Maximum size of a configuration in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Maximum number of inputs, and of outputs.
const MAX_TENSORS: usize = 4096;

/// Fields without effect here, with the reason.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    (
        "optimization",
        "the engine of each model has its own optimizations",
    ),
    ("model_warmup", "models are tried when they are loaded"),
    (
        "model_transaction_policy",
        "every graph can send any number of responses",
    ),
    (
        "metric_tags",
        "metrics have the labels `model` and `version`",
    ),
    ("model_metrics", "the buckets of histograms are fixed"),
    ("cc_model_filenames", "a model has one file"),
    ("runtime", "the backend is built in"),
];

/// Fields that would change answers, with the alternative.
const REFUSED: &[(&str, &str)] = &[
    (
        "sequence_batching",
        "for state between the requests of a sequence, write a graph",
    ),
    (
        "batch_input",
        "a batch contains only the rows of its requests",
    ),
    ("batch_output", "an output has as many rows as the inputs"),
    (
        "model_operations",
        "libraries of custom operations are not loaded",
    ),
    ("model_repository_agents", "agents are not loaded"),
];

/// The outcome of reading a model's folder.
#[derive(Debug, Default)]
pub(in crate::cli) struct TritonModel {
    /// A graph for each version to serve; empty if there are errors.
    pub(in crate::cli) graphs: Vec<GraphEntry>,
    pub(in crate::cli) sources: SourceMap,
    pub(in crate::cli) diagnostics: Vec<Diagnostic>,
}

impl TritonModel {
    /// Returns the errors or the warnings as lines, each with its place.
    pub(in crate::cli) fn lines(&self, severity: diag::Severity) -> Vec<String> {
        let wanted = self.diagnostics.iter().filter(|it| it.severity == severity);
        let line = |it: &Diagnostic| {
            let place = self.sources.locate(it.primary.span);
            let place = place.map_or(String::new(), |place| format!("{place}: "));
            format!("{place}{}", it.message)
        };
        wanted.map(line).collect()
    }
}

/// Returns true if a folder is a model of Triton: it has a configuration, or a version of an ONNX
/// model, whose file replaces one.
pub(in crate::cli) fn is_model(folder: &Path) -> bool {
    folder.join(FILE).is_file()
        || versions::with(folder, Backend::Onnx.file_name())
            .next()
            .is_some()
}

/// Reads the model `name` in `folder`. The models of an ensemble are in the same repository.
/// `config` is a JSON configuration that replaces the file.
pub(in crate::cli) fn load(folder: &Path, name: &str, config: Option<&str>) -> TritonModel {
    let mut loaded = TritonModel::default();
    let mut reader = TritonReader {
        sources: &mut loaded.sources,
        diagnostics: &mut loaded.diagnostics,
        models: BTreeMap::new(),
        signatures: BTreeMap::new(),
        compared: BTreeSet::new(),
    };
    let graphs = reader.graphs(folder, name, config).unwrap_or_default();
    if config.is_some() {
        // Places would refer to a text that the client has not written.
        for found in &mut loaded.diagnostics {
            found.primary.span = Span::NONE;
        }
    }
    diag::sort(&mut loaded.diagnostics);
    diag::truncate(&mut loaded.diagnostics);
    if !has_errors(&loaded.diagnostics) {
        loaded.graphs = graphs;
    }
    loaded
}

/// A configuration that was read, with its folder and its versions.
struct ModelFolder {
    folder: PathBuf,
    config: ModelConfig,
    backend: Backend,
    /// Versions that exist and that the version policy serves, in ascending order.
    versions: Vec<u64>,
    tree: ast::Message,
}

impl ModelFolder {
    /// Returns the place of a field, or the start of the file if it is missing.
    fn place(&self, field: &str) -> Span {
        place(&self.tree, field)
    }

    fn file_name(&self) -> &str {
        match self.config.default_model_filename.as_str() {
            "" => self.backend.file_name(),
            named => named,
        }
    }

    fn file(&self, version: u64) -> PathBuf {
        self.folder.join(version.to_string()).join(self.file_name())
    }
}

/// The inputs and outputs of an ONNX model, or the reason why they are not known.
type Signature = Result<Rc<[Vec<FileTensor>; 2]>, String>;

struct TritonReader<'a> {
    sources: &'a mut SourceMap,
    diagnostics: &'a mut Vec<Diagnostic>,
    /// Models of an ensemble that were read, by name.
    models: BTreeMap<String, Option<Rc<ModelFolder>>>,
    /// Tensors of files that were read.
    signatures: BTreeMap<PathBuf, Signature>,
    /// Files that were compared with a configuration.
    compared: BTreeSet<PathBuf>,
}

impl TritonReader<'_> {
    fn wrong(&mut self, place: Span, message: impl Into<String>) {
        let error = Diagnostic::error(&TRITON, place, message);
        self.diagnostics.push(error);
    }

    fn warn(&mut self, place: Span, message: impl Into<String>) {
        let warning = Diagnostic::warning(&TRITON, place, message);
        self.diagnostics.push(warning);
    }

    /// Reads a `config.pbtxt`, or the `given` configuration; `None` if it has errors. A model
    /// without a file has an empty configuration.
    fn read(&mut self, folder: &Path, name: &str, given: Option<&str>) -> Option<ModelFolder> {
        let file = folder.join(FILE);
        let shown = match given {
            Some(_) => "parameters.config".to_owned(),
            None => source(folder).display().to_string(),
        };
        let text = match given {
            Some(config) if config.len() > MAX_BYTES => {
                Err(format!("it is larger than {} MiB", MAX_BYTES >> 20))
            }
            Some(config) => json::text(config),
            None if source(folder) == folder => Ok(String::new()),
            None => match read_at_most(&file, MAX_BYTES as u64).map(String::from_utf8) {
                Ok(text) => text.map_err(|_| "it is not UTF-8 text".to_owned()),
                Err(error) => Err(error.to_string()),
            },
        };
        let text = text
            .map_err(|why| self.wrong(Span::NONE, format!("cannot read `{shown}`: {why}")))
            .ok()?;
        let id = self.sources.add(shown, text);
        let (tree, diagnostics) = parse(self.sources, id);
        let is_readable = !has_errors(&diagnostics);
        self.diagnostics.extend(diagnostics);
        let mut tree = tree.root;
        for (field, why) in WITHOUT_EFFECT {
            if let Some(found) = tree.fields_named(field).next() {
                self.warn(found.name.span, format!("`{field}` has no effect: {why}"));
            }
        }
        for (field, why) in REFUSED {
            if let Some(found) = tree.fields_named(field).next() {
                self.wrong(
                    found.name.span,
                    format!("`{field}` is not supported: {why}"),
                );
            }
        }
        let known = WITHOUT_EFFECT.iter().chain(REFUSED);
        let known: Vec<&str> = known.map(|(field, _)| *field).collect();
        tree.fields.retain(|field| {
            let name = field.name.as_plain();
            name.is_none_or(|name| !known.contains(&name))
        });
        let config: ModelConfig = from_message(&tree, MESSAGE, tree.head())
            .map_err(|diagnostics| self.diagnostics.extend(diagnostics))
            .ok()
            .filter(|_| is_readable)?;
        if !["", name].contains(&config.name.as_str()) {
            let message = format!("`name` is `{}`, but the folder is `{name}`", config.name);
            self.wrong(place(&tree, "name"), message);
        }
        for (side, tensors) in config.sides() {
            if tensors.len() > MAX_TENSORS {
                self.wrong(
                    place(&tree, side),
                    format!("a model can have at most {MAX_TENSORS} `{side}`"),
                );
                return None;
            }
        }
        let mut named = Path::new(&config.default_model_filename).components();
        if !named.all(|it| matches!(it, Component::Normal(_))) {
            self.wrong(
                place(&tree, "default_model_filename"),
                "`default_model_filename` must be a path inside the folder of a version",
            );
            return None;
        }
        let backend = self.backend(folder, &config, &tree)?;
        let mut model = ModelFolder {
            folder: folder.to_owned(),
            config,
            backend,
            versions: Vec::new(),
            tree,
        };
        model.versions = model.served();
        if backend == Backend::Onnx {
            self.complete(&mut model);
        }
        self.read_labels(&mut model);
        self.check(&model);
        self.check_names(&model, given.is_some());
        Some(model)
    }

    /// Returns the graphs of a model, one for each version.
    fn graphs(
        &mut self,
        folder: &Path,
        name: &str,
        config: Option<&str>,
    ) -> Option<Vec<GraphEntry>> {
        let model = self.read(folder, name, config)?;
        let file = PathBuf::from(format!("graph of {}", source(folder).display()));
        if model.backend == Backend::Ensemble {
            let text = self.ensemble(&model)?;
            return Some(vec![GraphEntry {
                text: Some(text.into()),
                ..GraphEntry::new(name.to_owned(), folder.to_owned(), file)
            }]);
        }
        self.check_versions(&model);
        let versions = model.versions.clone();
        let is_only = versions == [1];
        let entries = versions.into_iter().map(|version| {
            let text = self.version(&model, version)?;
            Some(GraphEntry {
                version: (!is_only).then_some(version),
                text: Some(text.into()),
                ..GraphEntry::new(name.to_owned(), folder.to_owned(), file.clone())
            })
        });
        entries.collect()
    }

    /// Writes the graph of one version of a model; `None` if there are errors.
    fn version(&mut self, model: &ModelFolder, version: u64) -> Option<String> {
        let file = whole(&model.file(version));
        if model.backend == Backend::Llama {
            return self.language_model(model, &file);
        }
        self.compare(model, version);
        let mut streams = Streams::default();
        let mut wired = |tensors: &[TensorConfig]| -> TensorStreams {
            let pairs = tensors.iter();
            pairs
                .map(|tensor| (tensor.name.clone(), streams.name(&tensor.name)))
                .collect()
        };
        let placed = PlacedModel {
            model: &model.config,
            file,
            inputs: wired(&model.config.input),
            outputs: wired(&model.config.output),
        };
        Some(graph::text(
            &source(&model.folder),
            &model.config,
            streams,
            &[placed],
        ))
    }

    /// Writes the graph of a language model. `parameters` are options of its node.
    fn language_model(&mut self, model: &ModelFolder, file: &Path) -> Option<String> {
        let options = model.config.parameters.iter().map(|parameter| {
            let value = &parameter.value.string_value;
            (parameter.key.as_str(), value.as_str())
        });
        let flags = ModelFlags::default();
        let text = super::kind(file, &flags)
            .and_then(|kind| super::graph::text(file, kind, &flags))
            .map_err(|why| self.wrong(model.tree.head(), why))
            .ok()?;
        Some(graph::with_options(&text, options))
    }
}

/// Returns the path of a folder's configuration, or of the folder if it has none.
fn source(folder: &Path) -> PathBuf {
    let file = folder.join(FILE);
    match file.symlink_metadata() {
        Ok(_) => file,
        Err(_) => folder.to_owned(),
    }
}

/// Returns the absolute form of a path.
fn whole(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
