//! `config.json`: the graphs to serve, in OpenVINO Model Server's format, and the graphs that they
//! can use as nodes.
//!
//! ```json
//! {
//!   "model_config_list": [],
//!   "mediapipe_config_list": [{"name": "my/llm", "base_path": "my_llm"}],
//!   "subgraph_list": ["shared"]
//! }
//! ```
//!
//! Each error in the file is a diagnostic with its position; no unknown key is ignored. A graph
//! that cannot be loaded is not an error of this file: it is reported with its own diagnostics, and
//! the other graphs are served.

pub(crate) mod aliases;
pub mod codes;
pub mod diagnostics;
pub(crate) mod edit;
mod maker;
mod member;
mod observation;
mod resolve;
pub(crate) use resolve::wrong_name;
mod lister;
mod schema;
pub(crate) mod subgraphs;
mod text;
mod versions;
pub(crate) use versions::numbered as version_folders;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use graphmill_engine::{Registry, Subgraph};
use graphmill_grammar::{
    diag::{Diagnostic, has_errors},
    span::{SourceMap, Span},
};
use graphmill_llm::AdapterSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use lister::{Lister, ModelReader};
pub use maker::Maker;
pub use observation::{Observation, Redaction};
pub use schema::json_schema;
use text::Text;
pub(crate) use text::without_place;

/// The graphs that a configuration lists.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Graphs in the order of the file. Names and versions are unique.
    pub graphs: Vec<GraphEntry>,
    /// Graphs that all of them can use as nodes.
    pub subgraphs: Vec<Subgraph>,
    /// Distribution of requests that name no version, for graphs that configure it.
    pub canaries: Vec<Canary>,
    /// Other folders and files whose changes change what the configuration lists.
    pub places: Vec<PathBuf>,
    /// Limits on the packets that operators see.
    pub observation: Observation,
}

/// The distribution over versions of requests for a graph that name no version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// Name of the graph that has several versions.
    pub graph: String,
    /// Percentages by version. Other requests go to the newest version that is not listed.
    pub percents: BTreeMap<u64, u32>,
}

impl Config {
    /// Adds the configuration's subgraphs to a registry. They replace subgraphs of the same name.
    #[must_use]
    pub fn register(&self, registry: Registry) -> Registry {
        let subgraphs = self.subgraphs.iter().cloned();
        subgraphs.fold(registry, Registry::with_subgraph)
    }

    /// Copies the adapters that graphs were given at run time from another configuration, to the
    /// graphs of the same names.
    pub(crate) fn keep_adapters(&mut self, before: &Self) {
        for entry in &mut self.graphs {
            let id = entry.id();
            if let Some(before) = before.graphs.iter().find(|it| it.id() == id) {
                entry.adapters.clone_from(&before.adapters);
            }
        }
    }
}

/// One graph of the configuration, or one version of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GraphEntry {
    /// Name for the `model` of requests; may contain `/`.
    pub name: String,
    /// Additional names for requests, unique over all graphs.
    pub aliases: Vec<String>,
    /// Number of the version's folder; `None` for a graph without versions.
    pub version: Option<u64>,
    /// Folder that paths in the graph's node options are relative to.
    pub base: PathBuf,
    /// Path of the graph file.
    pub file: PathBuf,
    /// Path of the file that would list the graph's classic models.
    pub subconfig: PathBuf,
    /// Text of a graph that was generated for a model, or stored with the last good configuration;
    /// `None` reads it from `file`.
    pub text: Option<Arc<str>>,
    /// Generates the graph of a model that must be prepared first; unused if there is a `text`.
    pub maker: Option<Maker>,
    /// Subgraphs stored with the last good configuration; `None` reads them from the graph's
    /// folder.
    pub beside: Option<Arc<[Subgraph]>>,
    /// Adapters that it was given at run time, behind those of its file.
    pub adapters: Vec<AdapterSpec>,
    /// Settings for loading, readiness, timeouts and answers.
    pub serving: Serving,
}

/// Settings of a graph for loading, readiness, timeouts and answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// True if the server is ready without it.
    pub optional: bool,
    /// True to load it at the first request, not with the server.
    pub on_demand: bool,
    /// Idle time after which it is unloaded; zero never unloads. `None` uses the server's default.
    pub idle_unload: Option<Duration>,
    /// Maximum time of a request that sets none; no limit if `None`.
    pub response_timeout: Option<Duration>,
    /// True if a reload replaces it by itself: it is loaded later, and its errors do not affect
    /// other graphs.
    #[serde(default)]
    pub independent: bool,
    /// Form of its answers at `/generate`, if configured.
    #[serde(default)]
    pub generate_form: Option<GenerateForm>,
}

/// The form of answers at `/generate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GenerateForm {
    /// Form of Text Generation Inference.
    Tgi,
    /// Form of the server LightLLM.
    LightLlm,
}

impl GenerateForm {
    /// Returns the word for it in requests and configurations.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Tgi => "tgi",
            Self::LightLlm => "lightllm",
        }
    }
}

impl GraphEntry {
    /// Creates the entry of a graph without versions, with default settings.
    pub fn new(name: String, base: PathBuf, file: PathBuf) -> Self {
        Self {
            name,
            subconfig: base.join("subconfig.json"),
            base,
            file,
            ..Self::default()
        }
    }

    /// Returns the name that requests select exactly this entry by: the name, or `name@version`.
    pub fn id(&self) -> String {
        match self.version {
            None => self.name.clone(),
            Some(version) => format!("{}@{version}", self.name),
        }
    }

    /// Returns the reason why the graph's subconfig forbids serving it; `None` if it does not.
    pub fn refused_subconfig(&self) -> Option<String> {
        resolve::refused_subconfig(&self.subconfig)
    }
}

/// The result of reading a configuration.
#[derive(Debug, Default)]
pub struct LoadedConfig {
    /// `None` if a diagnostic is an error.
    pub config: Option<Config>,
    /// Graphs that could be read, in spite of errors in others.
    pub listed: Config,
    /// Text of the file, for printing diagnostics.
    pub sources: SourceMap,
    /// Errors and warnings, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    /// Warnings about graph files that do not exist yet.
    pub lacking: Vec<Diagnostic>,
}

/// Reads a configuration file and resolves the graphs that it lists.
pub fn load(path: &Path) -> LoadedConfig {
    let file = path.display();
    match graphmill_engine::read_regular(path).map(String::from_utf8) {
        Ok(Ok(text)) => parse(path, &text),
        Ok(Err(_)) => unreadable(format!("`{file}` is not UTF-8 text")),
        Err(error) => unreadable(format!("cannot read the configuration `{file}`: {error}")),
    }
}

fn unreadable(message: String) -> LoadedConfig {
    let diagnostics = vec![Diagnostic::error(&codes::UNREADABLE, Span::NONE, message)];
    LoadedConfig {
        diagnostics,
        ..LoadedConfig::default()
    }
}

/// Parses the text of a configuration whose file is `path`.
pub fn parse(path: &Path, text: &str) -> LoadedConfig {
    let mut sources = SourceMap::new();
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let file = sources.add(path.display().to_string(), text);
    let places = Text { file, text };
    let mut diagnostics = Vec::new();
    let mut subgraphs = Vec::new();
    let mut observation = Observation::default();
    // The text without the unknown keys found so far.
    let mut known = Cow::Borrowed(text);
    let graphs = loop {
        let mut deserializer = serde_json::Deserializer::from_str(&known);
        let read: Result<schema::Object<schema::File>, _> =
            serde_path_to_error::deserialize(&mut deserializer);
        let schema::Object(mut config) = match read {
            Ok(config) => config,
            Err(error) => {
                let diagnostic = places.explain(&error);
                let is_unknown_key = diagnostic.code == &codes::UNKNOWN_KEY;
                let key = diagnostic.primary.span.range();
                diagnostics.push(diagnostic);
                let without = is_unknown_key.then(|| member::without(&known, key));
                match without.flatten() {
                    Some(without) => known = without.into(),
                    None => break resolve::Graphs::default(),
                }
                continue;
            }
        };
        if let Err(error) = deserializer.end() {
            let span = places.at(error.line(), error.column());
            let message = "there is text after the configuration";
            diagnostics.push(Diagnostic::error(&codes::NOT_JSON, span, message));
        }
        places.refuse_unsupported(&config, &mut diagnostics);
        let folder = path.parent().unwrap_or(Path::new(""));
        subgraphs = resolve::subgraphs(&config, folder, &places, &mut diagnostics);
        if let Some(schema::Object(given)) = config.observation.take() {
            observation = given;
        }
        break resolve::graphs(&config, folder, &places, &mut diagnostics);
    };
    let listed = Config {
        graphs: graphs.entries,
        subgraphs,
        canaries: graphs.canaries,
        places: graphs.places,
        observation,
    };
    LoadedConfig {
        config: (!has_errors(&diagnostics)).then(|| listed.clone()),
        listed,
        sources,
        diagnostics,
        lacking: graphs.lacking,
    }
}

#[cfg(test)]
mod tests;
