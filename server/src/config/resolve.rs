//! From the keys of `config.json` to the graphs to serve: which names, and which files.
//!
//! `base_path` is relative to the folder of `config.json` and defaults to a folder with the graph's name; `graph_path` is
//! relative to `base_path`. Graphs of `mediapipe_config_list` come first, and the first of two equal names is served.

use std::path::{Path, PathBuf};

use graphmill_engine::Subgraph;
use graphmill_grammar::{diag::Diagnostic, span::Span};

use super::{GraphEntry, codes, schema};
use crate::servable::subgraphs::listed;

/// The file that describes a graph when `graph_path` does not name another.
const GRAPH_FILE: &str = "graph.pbtxt";

/// Finds the place that a message is about.
pub(super) trait Places {
    /// The `occurrence`-th `"name": "<name>"` in the file, counted from 0.
    fn name(&self, name: &str, occurrence: usize) -> Span;

    /// The last string of this text in the file.
    fn entry(&self, text: &str) -> Span;
}

/// Collects the graphs of a file; `folder` is where the file lies.
pub(super) fn graphs(
    file: &schema::File,
    folder: &Path,
    places: &dyn Places,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<GraphEntry> {
    let mut graphs: Vec<GraphEntry> = Vec::new();
    let listed = file
        .mediapipe_config_list
        .iter()
        .map(|graph| (graph, Listed::AsGraph));
    let modelled = file
        .model_config_list
        .iter()
        .map(|entry| (&entry.config, Listed::AsModel));
    for (graph, listed) in listed.chain(modelled) {
        if graph.name.is_empty() {
            diagnostics.push(
                Diagnostic::error(
                    &codes::WRONG_VALUE,
                    places.name("", 0),
                    "the `name` of a graph is empty",
                )
                .hint("the `model` of a request selects the graph by this name"),
            );
        } else if let Some(earlier) = graphs.iter().find(|earlier| earlier.name == graph.name) {
            let served = earlier.file.display();
            let message = format!(
                "`{}` names more than one graph; `{served}` is served",
                graph.name
            );
            diagnostics.push(Diagnostic::warning(
                &codes::DUPLICATE_NAME,
                places.name(&graph.name, 1),
                message,
            ));
        } else {
            graphs.push(entry(graph, folder, listed));
        }
    }
    graphs
}

/// Collects the subgraphs of a file; `folder` is where the file lies.
pub(super) fn subgraphs(
    file: &schema::File,
    folder: &Path,
    places: &dyn Places,
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

/// Which list of the file a graph stands in.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Listed {
    AsGraph,
    AsModel,
}

fn entry(graph: &schema::Graph, folder: &Path, listed: Listed) -> GraphEntry {
    let base = match graph.base_path.as_str() {
        "" => folder.join(&graph.name),
        path => folder.join(path),
    };
    let named = match graph.graph_path.as_str() {
        "" => GRAPH_FILE,
        path => path,
    };
    let mut file = base.join(named);
    // Model repositories keep versions in numbered folders; a graph has one, so only the first is looked for.
    let versioned = base.join("1").join(named);
    if listed == Listed::AsModel && !file.is_file() && versioned.is_file() {
        file = versioned;
    }
    let subconfig = match graph.subconfig.as_str() {
        "" => base.join("subconfig.json"),
        path => base.join(path),
    };
    GraphEntry {
        name: graph.name.clone(),
        base,
        file,
        subconfig,
    }
}

/// Tells why a graph cannot be served with the subconfig it has: one that lists classic models, which the graph would need.
pub(super) fn refused_subconfig(path: &PathBuf) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    match serde_json::from_str::<serde_json::Value>(&text) {
        Err(error) => Some(format!("`{}` is not JSON: {error}", path.display())),
        Ok(subconfig) => {
            let models = subconfig.get("model_config_list")?.as_array()?.len();
            (models > 0).then(|| {
                format!(
                    "`{}` lists classic OpenVINO models, which are not served",
                    path.display()
                )
            })
        }
    }
}
