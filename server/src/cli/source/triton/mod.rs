//! Models of Triton's repositories: a folder with a `config.pbtxt` and, in folders whose names are
//! numbers, the model's versions. Each becomes a graph.

mod graph;
mod json;
mod model;

use std::path::{Component, Path, PathBuf};

use graphmill_engine::{read_regular, shortened};
use graphmill_grammar::{
    Diagnostic, SourceMap, Span, ast,
    de::from_message,
    diag::{self, has_errors},
    parse, suggest,
};

use self::{
    graph::Placed,
    model::{EnsembleScheduling, Kind, ModelConfig, Parameter, TensorConfig, VersionPolicy},
};
use super::{
    ModelFlags,
    tensors::{Streams, Wired},
};
use crate::config::{self, GraphEntry, codes::TRITON};

/// The file that describes a model.
pub(in crate::cli) const FILE: &str = "config.pbtxt";

/// The name of the message, for diagnostics.
const MESSAGE: &str = "ModelConfig";

/// Fields that change nothing here, with the reason.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    (
        "optimization",
        "the engine of each model has its own optimizations",
    ),
    ("model_warmup", "models are tried when they are loaded"),
    (
        "model_transaction_policy",
        "every graph can answer a request any number of times",
    ),
    (
        "metric_tags",
        "metrics have the labels `model` and `version`",
    ),
    ("model_metrics", "the buckets of histograms are fixed"),
    ("cc_model_filenames", "a model has one file"),
    ("runtime", "the backend is a part of the program"),
];

/// Fields that would change answers, with what to use.
const REFUSED: &[(&str, &str)] = &[
    (
        "sequence_batching",
        "a graph keeps what its nodes keep between the requests of a sequence: write a graph",
    ),
    (
        "batch_input",
        "a batch has the rows of its requests and nothing else",
    ),
    (
        "batch_output",
        "the rows of an output are those of the inputs",
    ),
    (
        "model_operations",
        "libraries of custom operations are not loaded",
    ),
    ("model_repository_agents", "agents are not loaded"),
];

/// Backends, by the names of `platform` and `backend`.
const BACKENDS: &[(&str, Backend)] = &[
    ("onnxruntime_onnx", Backend::Onnx),
    ("onnxruntime", Backend::Onnx),
    ("llamacpp", Backend::Llama),
    ("llama.cpp", Backend::Llama),
    ("ensemble", Backend::Ensemble),
];

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Backend {
    Onnx,
    Llama,
    Ensemble,
}

impl Backend {
    const fn file_name(self) -> &'static str {
        match self {
            Self::Onnx => "model.onnx",
            Self::Llama => "model.gguf",
            Self::Ensemble => "",
        }
    }
}

/// The outcome of reading a model's folder.
#[derive(Debug, Default)]
pub(in crate::cli) struct Loaded {
    /// A graph for each version that is served; none where a diagnostic is an error.
    pub(in crate::cli) graphs: Vec<GraphEntry>,
    pub(in crate::cli) sources: SourceMap,
    pub(in crate::cli) diagnostics: Vec<Diagnostic>,
}

impl Loaded {
    /// Returns the errors, each with its place in a line.
    pub(in crate::cli) fn errors(&self) -> Vec<String> {
        self.lines(diag::Severity::Error)
    }

    /// Returns the warnings, each with its place in a line.
    pub(in crate::cli) fn warnings(&self) -> Vec<String> {
        self.lines(diag::Severity::Warning)
    }

    fn lines(&self, severity: diag::Severity) -> Vec<String> {
        let wanted = self.diagnostics.iter().filter(|it| it.severity == severity);
        wanted
            .map(|it| {
                let place = self.sources.locate(it.primary.span);
                let place = place.map_or(String::new(), |place| format!("{place}: "));
                format!("{place}{}", it.message)
            })
            .collect()
    }
}

/// Reads the model in `folder`, which is called `name`; models of ensembles lie beside it. `config`
/// is a configuration in JSON that counts instead of the file.
pub(in crate::cli) fn load(folder: &Path, name: &str, config: Option<&str>) -> Loaded {
    let mut loaded = Loaded::default();
    let mut reader = Reader {
        sources: &mut loaded.sources,
        diagnostics: &mut loaded.diagnostics,
    };
    let graphs = reader.graphs(folder, name, config).unwrap_or_default();
    if config.is_some() {
        // Places would be those of a text that the client has not written.
        for found in &mut loaded.diagnostics {
            found.primary.span = Span::NONE;
        }
    }
    diag::sort(&mut loaded.diagnostics);
    if !has_errors(&loaded.diagnostics) {
        loaded.graphs = graphs;
    }
    loaded
}

/// A model that has been read.
struct Model {
    folder: PathBuf,
    config: ModelConfig,
    backend: Backend,
    tree: ast::Message,
}

impl Model {
    /// Returns the place of a field, or the start of the file.
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

    /// Returns the versions that are there and that its policy serves, in order.
    fn versions(&self) -> Vec<u64> {
        let folders = config::version_folders(&self.folder);
        let there = folders.into_iter().filter(|it| self.file(*it).exists());
        let there: Vec<u64> = there.collect();
        match &self.config.version_policy {
            VersionPolicy { all: Some(_), .. } => there,
            VersionPolicy {
                specific: Some(specific),
                ..
            } => {
                let is_listed = |it: &u64| specific.versions.contains(it);
                there.into_iter().filter(is_listed).collect()
            }
            VersionPolicy { latest, .. } => {
                let count = latest.as_ref().map_or(1, |latest| latest.num_versions);
                there[there.len().saturating_sub(count)..].to_vec()
            }
        }
    }
}

fn place(tree: &ast::Message, field: &str) -> Span {
    let found = tree.fields_named(field).next();
    found.map_or_else(|| tree.head(), |field| field.value.span)
}

struct Reader<'a> {
    sources: &'a mut SourceMap,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Reader<'_> {
    fn wrong(&mut self, place: Span, message: impl Into<String>) {
        self.diagnostics
            .push(Diagnostic::error(&TRITON, place, message));
    }

    /// Reads a `config.pbtxt`, or a configuration in its place; nothing where it is none.
    fn read(&mut self, folder: &Path, name: &str, given: Option<&str>) -> Option<Model> {
        let file = folder.join(FILE);
        let shown = match given {
            Some(_) => "parameters.config".to_owned(),
            None => file.display().to_string(),
        };
        let text = match given {
            Some(config) => json::text(config),
            None => read_regular(&file)
                .map_err(|error| error.to_string())
                .and_then(|bytes| {
                    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
                }),
        };
        let text = match text {
            Ok(text) => text,
            Err(why) => {
                self.wrong(Span::NONE, format!("cannot read `{shown}`: {why}"));
                return None;
            }
        };
        let id = self.sources.add(shown, text);
        let (tree, diagnostics) = parse(self.sources, id);
        let is_readable = !has_errors(&diagnostics);
        self.diagnostics.extend(diagnostics);
        let mut tree = tree.root;
        for (field, why) in WITHOUT_EFFECT {
            if let Some(found) = tree.fields_named(field).next() {
                let message = format!("`{field}` has no effect: {why}");
                let place = found.name.span;
                self.diagnostics
                    .push(Diagnostic::warning(&TRITON, place, message));
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
            !field
                .name
                .as_plain()
                .is_some_and(|name| known.contains(&name))
        });
        let config: ModelConfig = match from_message(&tree, MESSAGE, tree.head()) {
            Ok(config) => config,
            Err(diagnostics) => {
                self.diagnostics.extend(diagnostics);
                return None;
            }
        };
        if !is_readable {
            return None;
        }
        if !["", name].contains(&config.name.as_str()) {
            let message = format!("the folder is `{name}`, and `name` says `{}`", config.name);
            self.wrong(place(&tree, "name"), message);
        }
        let backend = self.backend(&config, &tree)?;
        let model = Model {
            folder: folder.to_owned(),
            config,
            backend,
            tree,
        };
        self.check(&model);
        self.check_names(&model, given.is_some());
        Some(model)
    }

    fn backend(&mut self, config: &ModelConfig, tree: &ast::Message) -> Option<Backend> {
        let fields = [("platform", &config.platform), ("backend", &config.backend)];
        let set = fields.into_iter().find(|(_, name)| !name.is_empty());
        let Some((field, name)) = set else {
            let by_file = [("onnx", Backend::Onnx), ("gguf", Backend::Llama)];
            let ending = config.default_model_filename.rsplit('.').next();
            let known = by_file.iter().find(|(known, _)| Some(*known) == ending);
            if known.is_none() {
                self.wrong(
                    tree.head(),
                    "`backend` is missing: `onnxruntime` or `llamacpp`",
                );
            }
            return known.map(|(_, backend)| *backend);
        };
        let known = BACKENDS.iter().find(|(known, _)| known == name);
        if known.is_none() {
            let names = BACKENDS.iter().map(|(name, _)| *name);
            let near = suggest::nearest(name, names.clone());
            let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            self.wrong(
                place(tree, field),
                format!(
                    "models of `{name}` are not served, only those of {}{hint}",
                    names.join(", ")
                ),
            );
        }
        known.map(|(_, backend)| *backend)
    }

    /// Refuses values that mean something else here, or nothing.
    fn check(&mut self, model: &Model) {
        let Model {
            config, backend, ..
        } = model;
        let at_groups = model.place("instance_group");
        for group in &config.instance_group {
            if *backend == Backend::Onnx && (group.kind == Kind::KindGpu || !group.gpus.is_empty())
            {
                let named = match group.name.as_str() {
                    "" => String::new(),
                    name => format!(" of `{name}`"),
                };
                self.wrong(at_groups, format!("`kind`{named} can only be `KIND_CPU` or `KIND_AUTO`: ONNX models are computed on the CPU"));
            }
        }
        if *backend == Backend::Onnx
            && config.max_batch_size == 0
            && !config.instance_group.is_empty()
        {
            let message = "`instance_group` has no effect without `max_batch_size`: requests that are not batched are computed side by side";
            self.diagnostics
                .push(Diagnostic::warning(&TRITON, at_groups, message));
        }
        if *backend == Backend::Llama {
            if config.response_cache.enable {
                let at = model.place("response_cache");
                self.wrong(
                    at,
                    "`response_cache` is for tensors: texts are sampled anew",
                );
            }
            return;
        }
        for (side, tensors) in [("input", &config.input), ("output", &config.output)] {
            if tensors.is_empty() {
                self.wrong(
                    model.tree.head(),
                    format!(
                        "`{side}` is missing: each {side} needs a name, a data type and dimensions"
                    ),
                );
            }
            for tensor in tensors {
                self.check_tensor(model, side, tensor);
            }
        }
    }

    /// Refuses names that would lead out of the folder of a version, or be more of a graph than an
    /// option. A configuration of a request (`is_given`) names no files elsewhere.
    fn check_names(&mut self, model: &Model, is_given: bool) {
        let file = Path::new(&model.config.default_model_filename);
        let is_inside = |part| matches!(part, Component::Normal(_));
        if !file.components().all(is_inside) {
            let message =
                "`default_model_filename` is the name of a file in the folder of a version";
            self.wrong(model.place("default_model_filename"), message);
        }
        if model.backend != Backend::Llama {
            return;
        }
        let at = model.place("parameters");
        let is_part = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
        for Parameter { key, value } in &model.config.parameters {
            let shown = shortened(key, 100);
            if key.is_empty() || !key.chars().all(is_part) {
                self.wrong(at, format!("`parameters`: there is no option `{shown}`"));
            } else if is_given && value.string_value.contains('/') {
                let message = format!(
                    "the parameter `{shown}` has a `/`, as paths do, which only `{FILE}` may"
                );
                self.wrong(at, message);
            }
        }
    }

    fn check_tensor(&mut self, model: &Model, side: &str, tensor: &TensorConfig) {
        let place = model.place(side);
        if tensor.name.is_empty() {
            self.wrong(place, format!("an {side} has no `name`"));
        }
        if tensor.data_type.datatype().is_none() {
            self.wrong(
                place,
                format!("the {side} `{}` has no `data_type`", tensor.name),
            );
        }
        if !tensor.label_filename.is_empty() {
            let message = format!(
                "`label_filename` of `{}` has no effect: classes are told by their numbers",
                tensor.name
            );
            self.diagnostics
                .push(Diagnostic::warning(&TRITON, place, message));
        }
        if tensor.dims.iter().any(|dim| *dim < -1 || *dim == 0) {
            self.wrong(
                place,
                format!(
                    "a dimension of the {side} `{}` is neither -1 nor above 0",
                    tensor.name
                ),
            );
        }
    }

    /// Returns the graphs of a model.
    fn graphs(
        &mut self,
        folder: &Path,
        name: &str,
        config: Option<&str>,
    ) -> Option<Vec<GraphEntry>> {
        let model = self.read(folder, name, config)?;
        let file = PathBuf::from(format!("graph of {}", folder.join(FILE).display()));
        if model.backend == Backend::Ensemble {
            let text = self.ensemble(&model)?;
            let entry = GraphEntry::new(name.to_owned(), folder.to_owned(), file);
            return Some(vec![GraphEntry {
                text: Some(text.into()),
                ..entry
            }]);
        }
        let versions = model.versions();
        if versions.is_empty() {
            let message = format!(
                "there is no version to serve: `{}` with the number of a version for `1` does not exist, or `version_policy` leaves it out",
                model.file(1).display()
            );
            self.wrong(model.tree.head(), message);
        }
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

    /// Writes the graph of one version of a model.
    fn version(&mut self, model: &Model, version: u64) -> Option<String> {
        let file = whole(&model.file(version));
        if model.backend == Backend::Llama {
            return self.language_model(model, &file);
        }
        let mut streams = Streams::default();
        let mut wired = |tensors: &[TensorConfig]| -> Wired {
            let pairs = tensors.iter();
            pairs
                .map(|tensor| (tensor.name.clone(), streams.name(&tensor.name)))
                .collect()
        };
        let placed = Placed {
            model: &model.config,
            file,
            inputs: wired(&model.config.input),
            outputs: wired(&model.config.output),
        };
        Some(graph::text(
            &model.folder.join(FILE),
            &model.config,
            streams,
            &[placed],
        ))
    }

    /// Writes the graph of a language model; `parameters` are options of its node.
    fn language_model(&mut self, model: &Model, file: &Path) -> Option<String> {
        let options = model.config.parameters.iter().map(|parameter| {
            let value = &parameter.value.string_value;
            (parameter.key.as_str(), value.as_str())
        });
        let flags = ModelFlags::default();
        let text =
            super::kind(file, &flags).and_then(|kind| super::graph::text(file, kind, &flags));
        let text = text
            .map_err(|why| self.wrong(model.tree.head(), why))
            .ok()?;
        Some(graph::with_options(&text, options))
    }

    /// Writes the graph of an ensemble, in which each step is a node.
    fn ensemble(&mut self, ensemble: &Model) -> Option<String> {
        let place = ensemble.place("ensemble_scheduling");
        let EnsembleScheduling { step: steps } = &ensemble.config.ensemble_scheduling;
        if steps.is_empty() {
            self.wrong(place, "an ensemble needs a `step` for each of its models");
            return None;
        }
        let root = ensemble.folder.parent().unwrap_or(Path::new(""));
        let models: Option<Vec<(Model, u64)>> = steps
            .iter()
            .map(|step| self.step(root, &step.model_name, step.model_version, place))
            .collect();
        let models = models?;
        let mut streams = Streams::default();
        let mut placed = Vec::new();
        for (step, (model, version)) in steps.iter().zip(&models) {
            let mut wired = |side, map: &[model::Pair], tensors: &[TensorConfig]| {
                let mut pairs = Vec::new();
                for pair in map {
                    if !tensors.iter().any(|tensor| tensor.name == pair.key) {
                        let message = format!("`{}` has no {side} `{}`", step.model_name, pair.key);
                        self.wrong(place, message);
                    }
                    pairs.push((pair.key.clone(), streams.name(&pair.value)));
                }
                pairs
            };
            let inputs = wired("input", &step.input_map, &model.config.input);
            let outputs = wired("output", &step.output_map, &model.config.output);
            let is_fed =
                |tensor: &&TensorConfig| !inputs.iter().any(|(name, _)| *name == tensor.name);
            if let Some(unfed) = model.config.input.iter().find(is_fed) {
                let message = format!(
                    "`input_map` of `{}` has no `{}`",
                    step.model_name, unfed.name
                );
                self.wrong(place, message);
            }
            placed.push(Placed {
                model: &model.config,
                file: whole(&model.file(*version)),
                inputs,
                outputs,
            });
        }
        let file = ensemble.folder.join(FILE);
        Some(graph::text(&file, &ensemble.config, streams, &placed))
    }

    /// Reads the model of a step, in the version that it names or else in the newest.
    fn step(&mut self, root: &Path, name: &str, version: i64, place: Span) -> Option<(Model, u64)> {
        let folder = root.join(name);
        if config::wrong_name(name).is_some() || !folder.join(FILE).is_file() {
            let message = format!("the repository has no model `{name}` with a `{FILE}`");
            self.wrong(place, message);
            return None;
        }
        let model = self.read(&folder, name, None)?;
        if model.backend != Backend::Onnx {
            let message = format!(
                "`{name}` is no ONNX model: an ensemble with other models is written as a graph"
            );
            self.wrong(place, message);
            return None;
        }
        let versions = model.versions();
        let found = match u64::try_from(version) {
            Ok(wanted) => versions.into_iter().find(|it| *it == wanted),
            Err(_) => versions.last().copied(),
        };
        if found.is_none() {
            self.wrong(
                place,
                format!("`{name}` has no version {version} that is served"),
            );
        }
        Some((model, found?))
    }
}

/// Returns a path that does not depend on the current folder.
fn whole(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
