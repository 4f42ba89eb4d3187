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

pub mod codes;
pub mod diagnostics;
mod member;
mod resolve;
pub(crate) use resolve::wrong_name;
mod schema;
pub(crate) mod subgraphs;
mod versions;

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
    span::{FileId, SourceMap, Span},
    suggest,
};
use serde::{Deserialize, Serialize};

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
}

/// One graph of the configuration, or one version of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphEntry {
    /// What the `model` of a request says; may contain `/`.
    pub name: String,
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
    /// The subgraphs beside the graph, where kept ones count instead of the files.
    pub beside: Option<Arc<[Subgraph]>>,
    /// When it is in memory, and who needs it.
    pub serving: Serving,
}

/// When a graph is in memory, and whether the server is ready without it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// Whether the server is ready without it.
    pub optional: bool,
    /// Whether it is loaded when a request asks for it, and not with the server.
    pub on_demand: bool,
    /// After which time without a request it is unloaded; zero: never. Without it, the server's
    /// default counts.
    pub idle_unload: Option<Duration>,
}

impl GraphEntry {
    /// A graph file without versions.
    pub fn new(name: String, base: PathBuf, file: PathBuf) -> Self {
        Self {
            name,
            version: None,
            subconfig: base.join("subconfig.json"),
            base,
            file,
            text: None,
            beside: None,
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
    /// The file's text, for showing diagnostics.
    pub sources: SourceMap,
    /// Errors and warnings, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// The JSON schema of a configuration, for editors.
pub fn json_schema() -> serde_json::Value {
    schema::json_schema()
}

/// Reads a configuration file.
pub fn load(path: &Path) -> Loaded {
    match std::fs::read(path).map(String::from_utf8) {
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
        sources: SourceMap::new(),
        diagnostics,
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
    // The file without the unknown keys that were found so far.
    let mut known = Cow::Borrowed(text);
    let graphs = loop {
        let mut deserializer = serde_json::Deserializer::from_str(&known);
        let read: Result<schema::Object<schema::File>, _> =
            serde_path_to_error::deserialize(&mut deserializer);
        let schema::Object(config) = match read {
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
        break resolve::graphs(&config, folder, &places, &mut diagnostics);
    };
    let config = (!has_errors(&diagnostics)).then_some(Config {
        graphs: graphs.entries,
        subgraphs,
        canaries: graphs.canaries,
        places: graphs.places,
    });
    Loaded {
        config,
        sources,
        diagnostics,
    }
}

/// The file's text, to find the places that messages are about.
struct Text<'a> {
    file: FileId,
    text: &'a str,
}

impl Text<'_> {
    /// The place of `serde_json`'s line and column, both from 1, the column in bytes.
    fn at(&self, line: usize, column: usize) -> Span {
        let start: usize = self
            .text
            .split_inclusive('\n')
            .take(line.saturating_sub(1))
            .map(str::len)
            .sum();
        let mut end = (start + column).min(self.text.len());
        let mut begin = end.saturating_sub(1);
        while !self.text.is_char_boundary(begin) {
            begin -= 1;
        }
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        Span::new(self.file, begin..end)
    }

    /// The place after the last character.
    fn end(&self) -> Span {
        Span::new(self.file, self.text.len()..self.text.len())
    }

    /// The last string `text` that ends at or before `place`, with its quotes; else the place
    /// itself.
    fn string_before(&self, text: &str, place: Span) -> Span {
        let quoted = serde_json::Value::from(text).to_string();
        match self.text[..place.range().end].rfind(&quoted) {
            Some(start) => Span::new(self.file, start..start + quoted.len()),
            None => place,
        }
    }

    /// What serde says, in our words and at the place it is about.
    fn explain(&self, error: &serde_path_to_error::Error<serde_json::Error>) -> Diagnostic {
        let json = error.inner();
        let place = self.at(json.line(), json.column());
        let said = json.to_string();
        let said = said
            .rsplit_once(" at line ")
            .map_or(said.as_str(), |(message, _)| message);
        if !json.is_data() {
            return Diagnostic::error(
                &codes::NOT_JSON,
                place,
                format!("the configuration is not JSON: {}", lower_first(said)),
            );
        }
        let path = error.path().to_string();
        if let Some(rest) = said.strip_prefix("unknown field ") {
            let names: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
            let (key, known) = names
                .split_first()
                .expect("serde quotes the field it does not know");
            return self.unknown_key(key, known, &path, place);
        }
        // What the file says is told with its place, and what is ours with that of its key.
        let is_ours = !OF_SERDE.iter().any(|words| said.starts_with(words));
        let key = path.rsplit('.').next().filter(|_| is_ours);
        let place = key.map_or(place, |key| self.string_before(key, place));
        let place_name = if path == "." {
            "the configuration".to_owned()
        } else {
            format!("`{path}`")
        };
        Diagnostic::error(
            &codes::WRONG_VALUE,
            place,
            format!("{place_name}: {}", in_words_of_json(&lower_first(said))),
        )
    }

    fn unknown_key(&self, key: &str, known: &[&str], path: &str, place: Span) -> Diagnostic {
        let span = self.string_before(key, place);
        let diagnostic =
            Diagnostic::error(&codes::UNKNOWN_KEY, span, format!("unknown key `{path}`"));
        match suggest::nearest(key, known.iter().copied()) {
            Some(near) => diagnostic.fix(
                format!("did you mean `{near}`?"),
                span,
                format!("\"{near}\""),
            ),
            None => diagnostic.hint(format!("known here: {}", known.join(", "))),
        }
    }

    fn refuse_unsupported(&self, config: &schema::File, diagnostics: &mut Vec<Diagnostic>) {
        let lists = [
            ("pipeline_config_list", &config.pipeline_config_list),
            (
                "custom_node_library_config_list",
                &config.custom_node_library_config_list,
            ),
            (
                "custom_loader_config_list",
                &config.custom_loader_config_list,
            ),
        ];
        for (key, list) in lists {
            if !list.is_empty() {
                let message =
                    format!("`{key}` is about classic OpenVINO models, which are not served");
                diagnostics.push(Diagnostic::error(
                    &codes::CLASSIC_MODEL,
                    self.string_before(key, self.end()),
                    message,
                ));
            }
        }
        if config
            .monitoring
            .as_ref()
            .is_some_and(|monitoring| monitoring.0.metrics.0.enable)
        {
            let message =
                "`/metrics` is always served, with all of its metrics: `monitoring` has no effect";
            diagnostics.push(Diagnostic::warning(
                &codes::NO_EFFECT,
                self.string_before("monitoring", self.end()),
                message,
            ));
        }
    }
}

impl resolve::Places for Text<'_> {
    fn entry(&self, text: &str) -> Span {
        self.string_before(text, self.end())
    }

    fn name(&self, name: &str, occurrence: usize) -> Span {
        let quoted = serde_json::Value::from(name).to_string();
        let is_name = |&(start, _): &(usize, &str)| {
            let before = self.text[..start].trim_end().strip_suffix(':');
            before.is_some_and(|before| before.trim_end().ends_with("\"name\""))
        };
        match self
            .text
            .match_indices(&quoted)
            .filter(is_name)
            .nth(occurrence)
        {
            Some((start, _)) => Span::new(self.file, start..start + quoted.len()),
            None => Span::NONE,
        }
    }
}

/// How messages of serde begin.
const OF_SERDE: [&str; 4] = ["invalid ", "missing ", "unknown ", "duplicate "];

/// The message with its first letter in lower case, as all messages are.
fn lower_first(message: &str) -> String {
    let mut chars = message.chars();
    match chars.next() {
        Some(first) if !message.starts_with("EOF") => first.to_lowercase().chain(chars).collect(),
        _ => message.to_owned(),
    }
}

/// What serde says of types, which it calls as Rust does.
fn in_words_of_json(message: &str) -> String {
    message
        .replace("invalid type: map,", "invalid type: object,")
        .replace("invalid type: sequence,", "invalid type: array,")
        .replace("invalid type: floating point ", "invalid type: number ")
        .replace("expected a sequence", "expected an array")
        .replace("expected u32", "expected a whole number from 0")
        .replace("expected a nonzero u64", "expected a whole number above 0")
}

#[cfg(test)]
mod tests;
