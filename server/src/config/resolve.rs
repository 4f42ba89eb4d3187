//! Resolution of `config.json` to the graphs to serve: their names and files.
//!
//! `base_path` is relative to the folder of `config.json` and defaults to a folder with the graph's
//! name; `graph_path` is relative to `base_path`. Graphs of `mediapipe_config_list` come first, and
//! the first of two equal names is served.

use std::{
    collections::HashMap,
    io::ErrorKind,
    num::NonZeroU64,
    path::{Path, PathBuf},
    time::Duration,
};

use graphmill_engine::Subgraph;
use graphmill_grammar::{diag::Diagnostic, span::Span};

use super::{
    Canary, GraphEntry, Serving, aliases, codes, schema, subgraphs::listed, text::Text, versions,
};

const GRAPH_FILE: &str = "graph.pbtxt";

/// The graphs of a configuration.
#[derive(Default)]
pub(super) struct Graphs {
    pub(super) entries: Vec<GraphEntry>,
    /// Indices into `entries`, by name and by [`GraphEntry::id`].
    named: HashMap<String, usize>,
    pub(super) canaries: Vec<Canary>,
    /// Warnings about graph files that do not exist.
    pub(super) lacking: Vec<Diagnostic>,
    /// Folders and files whose changes add or remove versions.
    pub(super) places: Vec<PathBuf>,
}

impl Graphs {
    /// Returns the graph, or the version of one, that a request with this name would get.
    fn find(&self, name: &str) -> Option<&GraphEntry> {
        Some(&self.entries[*self.named.get(name)?])
    }

    fn push(&mut self, entry: GraphEntry) {
        let place = self.entries.len();
        self.named.entry(entry.name.clone()).or_insert(place);
        self.named.entry(entry.id()).or_insert(place);
        self.entries.push(entry);
    }
}

/// Collects the graphs of a configuration in `folder`.
pub(super) fn graphs(
    file: &schema::File,
    folder: &Path,
    places: &Text<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Graphs {
    let mut graphs = Graphs::default();
    let listed = (file.mediapipe_config_list.iter().enumerate()).map(|(index, graph)| {
        let field = format!("mediapipe_config_list[{index}].name");
        (&graph.0, false, field)
    });
    let modeled = (file.model_config_list.iter().enumerate()).map(|(index, entry)| {
        let field = format!("model_config_list[{index}].config.name");
        (&entry.0.config.0, true, field)
    });
    for (graph, is_model, field) in listed.chain(modeled) {
        let name = &graph.name;
        for key in graph.classic_options() {
            let message = format!(
                "`{key}` of `{name}` has no effect: it is an option of classic OpenVINO models, which are not served"
            );
            let warning = Diagnostic::warning(&codes::NO_EFFECT, places.entry(key), message);
            let hint = "a graph's options are in its nodes, in the graph file";
            diagnostics.push(warning.hint(hint));
        }
        if let Some(why) = wrong_name(name) {
            let (place, why) = (places.name(name, 0), format!("`{field}` {why}"));
            let hint = "the `model` of a request selects the graph by this name";
            diagnostics.push(Diagnostic::error(&codes::WRONG_VALUE, place, why).hint(hint));
        } else if let Some(earlier) = graphs.find(name) {
            diagnostics.push(duplicate(name, earlier, places.name(name, 1)));
        } else {
            add(&mut graphs, graph, folder, is_model, places, diagnostics);
        }
    }
    for (alias, why) in aliases::wrong(&graphs.entries) {
        diagnostics.push(Diagnostic::error(&codes::ALIAS, places.entry(alias), why));
    }
    graphs
}

fn duplicate(name: &str, served: &GraphEntry, place: Span) -> Diagnostic {
    let served = served.file.display();
    let message = format!("`{name}` names more than one graph; `{served}` is served");
    Diagnostic::warning(&codes::DUPLICATE_NAME, place, message)
}

/// Returns the reason why a graph cannot have this name, which becomes a part of URLs and, by
/// default, of paths. `None` if it can.
pub(crate) fn wrong_name(name: &str) -> Option<&'static str> {
    let mut segments = name.split('/');
    if name.is_empty() {
        Some("is empty")
    } else if name.contains(char::is_control) {
        Some("has a control character")
    } else if segments.clone().all(str::is_empty) {
        Some("consists only of slashes")
    } else if segments.any(|segment| matches!(segment, "." | "..")) {
        Some("has a segment `.` or `..`")
    } else {
        None
    }
}

/// Collects the subgraphs of a configuration in `folder`.
pub(super) fn subgraphs(
    file: &schema::File,
    folder: &Path,
    places: &Text<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Subgraph> {
    let mut subgraphs: Vec<Subgraph> = Vec::new();
    for entry in &file.subgraph_list {
        let refuse = |why: String| {
            Diagnostic::error(&codes::SUBGRAPH, places.entry(entry), why)
                .hint("an entry is a graph file with a `type`, or a folder with such files")
        };
        let found = match listed(&folder.join(entry)) {
            Ok(found) => found,
            Err(why) => {
                diagnostics.push(refuse(why));
                continue;
            }
        };
        for subgraph in found {
            match subgraphs.iter().find(|other| other.name == subgraph.name) {
                Some(other) => diagnostics.push(refuse(format!(
                    "`{}` and `{}` both have the type `{}`",
                    other.file, subgraph.file, subgraph.name
                ))),
                None => subgraphs.push(subgraph),
            }
        }
    }
    subgraphs
}

/// Adds a graph, or its versions. `is_model` is true for a graph of the model list.
fn add(
    graphs: &mut Graphs,
    graph: &schema::Graph,
    folder: &Path,
    is_model: bool,
    places: &Text<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let base = match graph.base_path.as_str() {
        "" => folder.join(&graph.name),
        path => folder.join(path),
    };
    let named = match graph.graph_path.as_str() {
        "" => GRAPH_FILE,
        path => path,
    };
    let entry = |version: Option<u64>, base: PathBuf, file: PathBuf| GraphEntry {
        version,
        subconfig: match graph.subconfig.as_str() {
            "" => base.join("subconfig.json"),
            path => base.join(path),
        },
        aliases: graph.aliases.clone(),
        serving: serving(graph),
        ..GraphEntry::new(graph.name.clone(), base, file)
    };
    let Some(versions) = versions::find(graph, &base, named, places, diagnostics) else {
        let mut file = base.join(named);
        // A graph of the model list may be in the folder of its only version.
        let only = base.join("1").join(named);
        if is_model && !file.is_file() {
            let looked = [base.clone(), file.clone(), only.clone()];
            graphs.places.extend(looked);
            if only.is_file() {
                file = only;
            }
        }
        if !file.is_file() {
            graphs.lacking.push(lacking(graph, &base, &file, places));
        }
        graphs.push(entry(None, base, file));
        return;
    };
    graphs.places.extend(versions.places);
    for version in versions.served {
        let base = base.join(version.to_string());
        let file = base.join(named);
        let entry = entry(Some(version), base, file);
        match graphs.find(&entry.id()) {
            None => graphs.push(entry),
            Some(earlier) => {
                let place = places.name(&graph.name, 0);
                diagnostics.push(duplicate(&entry.id(), earlier, place));
            }
        }
    }
    if !versions.canary.is_empty() {
        graphs.canaries.push(Canary {
            graph: graph.name.clone(),
            percents: versions.canary,
        });
    }
}

/// Reports a graph whose file does not exist, with a hint how to create it.
fn lacking(graph: &schema::Graph, base: &Path, file: &Path, places: &Text<'_>) -> Diagnostic {
    let (folder, file) = (base.display(), file.display());
    let place = match graph.base_path.as_str() {
        "" => places.name(&graph.name, 0),
        path => places.value("base_path", path, 0),
    };
    let hint = if base.is_dir() {
        format!(
            "where `{folder}` has a model, `graphmill serve {folder} --emit_graph > {file}` writes its graph"
        )
    } else {
        format!("`base_path` means the folder `{folder}`, which does not exist")
    };
    let message = format!("`{}` has no graph: there is no `{file}`", graph.name);
    Diagnostic::warning(&codes::WRONG_VALUE, place, message).hint(hint)
}

fn serving(graph: &schema::Graph) -> Serving {
    let seconds = graph.idle_unload_seconds.map(u64::from);
    let millis = graph.response_timeout_ms.map(NonZeroU64::get);
    Serving {
        optional: graph.optional,
        on_demand: graph.load == schema::Load::OnDemand,
        idle_unload: seconds.map(Duration::from_secs),
        response_timeout: millis.map(Duration::from_millis),
        independent: false,
        generate_form: graph.generate_form,
    }
}

/// Returns the reason why a graph cannot be served with its subconfig: it lists classic models,
/// which the graph would need. `None` if it can.
pub(super) fn refused_subconfig(path: &Path) -> Option<String> {
    let file = path.display();
    let text = match graphmill_engine::read_regular(path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return None;
        }
        Err(error) => return Some(format!("cannot read `{file}`: {error}")),
    };
    match serde_json::from_slice::<serde_json::Value>(&text) {
        Err(error) => Some(format!("`{file}` is not JSON: {error}")),
        Ok(subconfig) => {
            let models = subconfig.get("model_config_list")?.as_array()?;
            let why = format!("`{file}` lists classic OpenVINO models, which are not served");
            (!models.is_empty()).then_some(why)
        }
    }
}
