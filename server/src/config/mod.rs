//! `config.json`: the graphs to serve, in OpenVINO Model Server's format, and the graphs that can
//! be nodes of them.
//!
//! ```json
//! {
//!   "model_config_list": [],
//!   "mediapipe_config_list": [{"name": "my/llm", "base_path": "my_llm"}],
//!   "subgraph_list": ["shared"]
//! }
//! ```
//!
//! Everything wrong in the file is a diagnostic with the place in it; nothing unknown is ignored. A
//! graph that cannot be loaded is no error of this file: it is reported with its own diagnostics,
//! and the other graphs are served.

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
use text::Text;

/// The graphs that a configuration lists.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// In the order of the file, names and versions unique.
    pub graphs: Vec<GraphEntry>,
    /// Graphs that all of them can use as nodes.
    pub subgraphs: Vec<Subgraph>,
    /// How requests that name no version are divided, of graphs that say so.
    pub canaries: Vec<Canary>,
    /// Folders and files besides the configuration that decide what it lists.
    pub places: Vec<PathBuf>,
    /// What operators may see of packets.
    pub observation: Observation,
}

/// How requests for a graph that name no version are divided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// The graph's name.
    pub graph: String,
    /// Percents by version; the others go to the newest version that is not listed.
    pub percents: BTreeMap<u64, u32>,
}

impl Config {
    /// Adds the configuration's subgraphs to a registry; one that is there already under the same
    /// name is replaced.
    #[must_use]
    pub fn register(&self, registry: Registry) -> Registry {
        let subgraphs = self.subgraphs.iter().cloned();
        subgraphs.fold(registry, Registry::with_subgraph)
    }

    /// Gives graphs the adapters that graphs of their names were given at run time in another
    /// configuration.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphEntry {
    /// What the `model` of a request says; may contain `/`.
    pub name: String,
    /// Further names that a request may say, unique over all graphs.
    pub aliases: Vec<String>,
    /// The number of its folder, where a graph has versions.
    pub version: Option<u64>,
    /// The folder that paths in the graph's node options are relative to.
    pub base: PathBuf,
    /// The graph file.
    pub file: PathBuf,
    /// Where the graph's classic models would be listed.
    pub subconfig: PathBuf,
    /// The graph itself, where it was made for a model and no file has it, or where a kept one
    /// counts instead of the file.
    pub text: Option<Arc<str>>,
    /// Makes the graph where its model is got ready first; a `text` counts more.
    pub maker: Option<Maker>,
    /// The subgraphs beside the graph, where kept ones count instead of the files.
    pub beside: Option<Arc<[Subgraph]>>,
    /// Adapters that it was given at run time, behind those of its file.
    pub adapters: Vec<AdapterSpec>,
    /// When it is in memory, and who needs it.
    pub serving: Serving,
}

/// When a graph is in memory, whether the server is ready without it, and how it answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// Whether the server is ready without it.
    pub optional: bool,
    /// Whether it is loaded when a request asks for it, and not with the server.
    pub on_demand: bool,
    /// After which time without a request it is unloaded; zero: never. Without it, the server's
    /// default counts.
    pub idle_unload: Option<Duration>,
    /// Time for an answer where its request says none.
    pub response_timeout: Option<Duration>,
    /// True if a reload replaces it alone: it is loaded later, and keeps no other graph from being
    /// served.
    #[serde(default)]
    pub independent: bool,
    /// The form of its answers at `/generate`, where the configuration says it.
    #[serde(default)]
    pub generate_form: Option<GenerateForm>,
}

/// A form of answers at `/generate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GenerateForm {
    /// Form of TGI.
    Tgi,
    /// Form of LightLLM.
    LightLlm,
}

impl GenerateForm {
    /// Its name in requests and configurations.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Tgi => "tgi",
            Self::LightLlm => "lightllm",
        }
    }
}

impl GraphEntry {
    /// A graph file without versions.
    pub fn new(name: String, base: PathBuf, file: PathBuf) -> Self {
        Self {
            name,
            aliases: Vec::new(),
            version: None,
            subconfig: base.join("subconfig.json"),
            base,
            file,
            text: None,
            maker: None,
            beside: None,
            adapters: Vec::new(),
            serving: Serving::default(),
        }
    }

    /// What a request says to get just this: the name, or `name@version`.
    pub fn id(&self) -> String {
        match self.version {
            None => self.name.clone(),
            Some(version) => format!("{}@{version}", self.name),
        }
    }

    /// Why the graph's subconfig keeps it from being served, if it does.
    pub fn refused_subconfig(&self) -> Option<String> {
        resolve::refused_subconfig(&self.subconfig)
    }
}

/// What reading a configuration gave: the graphs unless there was an error, and what is to be said
/// about the file.
#[derive(Debug)]
pub struct Loaded {
    /// `None` when a diagnostic is an error.
    pub config: Option<Config>,
    /// The graphs that could be read, whatever is wrong with others.
    pub listed: Config,
    /// The file's text, for showing diagnostics.
    pub sources: SourceMap,
    /// Errors and warnings, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    /// Warnings about graph files that are not there, and may come.
    pub lacking: Vec<Diagnostic>,
}

/// The JSON schema of a configuration, for editors.
pub fn json_schema() -> serde_json::Value {
    schema::json_schema()
}

/// Reads a configuration file.
pub fn load(path: &Path) -> Loaded {
    match graphmill_engine::read_regular(path).map(String::from_utf8) {
        Ok(Ok(text)) => parse(path, &text),
        Ok(Err(_)) => unreadable(format!("`{}` is not UTF-8 text", path.display())),
        Err(error) => unreadable(format!(
            "cannot read the configuration `{}`: {error}",
            path.display()
        )),
    }
}

fn unreadable(message: String) -> Loaded {
    let diagnostics = vec![Diagnostic::error(&codes::UNREADABLE, Span::NONE, message)];
    Loaded {
        config: None,
        listed: Config::default(),
        sources: SourceMap::new(),
        diagnostics,
        lacking: Vec::new(),
    }
}

/// Reads the text of a configuration that lies at `path`.
pub fn parse(path: &Path, text: &str) -> Loaded {
    let mut sources = SourceMap::new();
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let file = sources.add(path.display().to_string(), text);
    let places = Text { file, text };
    let mut diagnostics = Vec::new();
    let mut subgraphs = Vec::new();
    let mut observation = Observation::default();
    // The file without the unknown keys that were found so far.
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
            diagnostics.push(Diagnostic::error(
                &codes::NOT_JSON,
                span,
                "more text follows the configuration",
            ));
        }
        places.refuse_unsupported(&config, &mut diagnostics);
        let folder = path.parent().unwrap_or(Path::new(""));
        subgraphs = resolve::subgraphs(&config, folder, &places, &mut diagnostics);
        if let Some(schema::Object(given)) = config.observation.take() {
            observation = given.into();
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
    Loaded {
        config: (!has_errors(&diagnostics)).then(|| listed.clone()),
        listed,
        sources,
        diagnostics,
        lacking: graphs.lacking,
    }
}

#[cfg(test)]
mod tests;
