//! Subgraphs that are files: which of them a graph can use as nodes.
//!
//! A graph file with a `type` can be a node of every graph in its folder and, where its folder is called `subgraphs`, of every
//! graph beside that. `subgraph_list` of the configuration names files, and folders of files, for all graphs.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use graphmill_engine::{Registry, Subgraph};
use graphmill_grammar::{GraphConfig, SourceMap, parse_graph};

/// The folder beside a graph whose files are for that folder's graphs alone.
const FOLDER: &str = "subgraphs";

/// The subgraphs that lie beside a graph file.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    by_name: BTreeMap<String, Vec<Subgraph>>,
}

impl Beside {
    /// Those that the graph `file` can use.
    pub(crate) fn of(file: &Path) -> Self {
        let folder = match file.parent() {
            None => Path::new("."),
            Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
            Some(folder) => folder,
        };
        let mut beside = Self::default();
        let found = in_folder(folder)
            .into_iter()
            .chain(in_folder(&folder.join(FOLDER)));
        for subgraph in found {
            let same = beside.by_name.entry(subgraph.name.to_string());
            same.or_default().push(subgraph);
        }
        beside
    }

    /// Adds them to a registry; one that is there already under the same name is replaced.
    pub(crate) fn register(&self, registry: Registry) -> Registry {
        let first = self.by_name.values().filter_map(|same| same.first());
        first.cloned().fold(registry, Registry::with_subgraph)
    }

    /// Why it is not clear which file a node of the graph, or of a subgraph in it, is; none if it is clear.
    pub(crate) fn ambiguity(&self, graph: &GraphConfig) -> Option<String> {
        let mut names = calculators(graph);
        let mut seen = BTreeSet::new();
        while let Some(name) = names.pop() {
            match self.by_name.get(&name).map(Vec::as_slice) {
                Some([first, second, ..]) => {
                    return Some(format!(
                        "`{}` and `{}` both have the type `{name}`, so it is not clear which of them a node is",
                        first.file, second.file
                    ));
                }
                Some([only]) if seen.insert(name) => {
                    let (file, text) = (only.file.as_ref(), only.text.as_ref());
                    let inner = parse_graph(&mut SourceMap::new(), file, text).graph;
                    names.extend(inner.iter().flat_map(calculators));
                }
                _ => {}
            }
        }
        None
    }
}

/// What the nodes of a graph name.
fn calculators(graph: &GraphConfig) -> Vec<String> {
    let named = graph
        .node
        .iter()
        .filter_map(|node| node.calculator.as_ref());
    named.map(|name| name.value.clone()).collect()
}

/// The graph files with a `type` in a folder, by file name; none if it is no folder that can be read.
fn in_folder(folder: &Path) -> Vec<Subgraph> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("pbtxt"))
    });
    files.sort();
    let typed = files.iter().filter_map(|file| {
        let text = std::fs::read_to_string(file).ok()?;
        Subgraph::typed(name_of(file), text)
    });
    typed.collect()
}

/// The file's path as messages show it.
fn name_of(file: &Path) -> String {
    file.strip_prefix(".").unwrap_or(file).display().to_string()
}

/// The subgraphs of an entry of `subgraph_list`: of a file, or of all files in a folder. The error says what is wrong with the
/// entry.
pub(crate) fn listed(path: &Path) -> Result<Vec<Subgraph>, String> {
    if path.is_dir() {
        return match in_folder(path) {
            none if none.is_empty() => Err(format!(
                "there is no graph file with a `type` in `{}`",
                path.display()
            )),
            found => Ok(found),
        };
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let subgraph = Subgraph::typed(name_of(path), text);
    subgraph
        .map(|subgraph| vec![subgraph])
        .ok_or_else(|| format!("`{}` has no `type`, so no node can name it", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_beside_a_graph_and_in_its_folder_of_subgraphs_are_found() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().expect("it has one")).expect("writable");
            std::fs::write(&file, text).expect("writable");
            file
        };
        let graph = write("graph.pbtxt", "node { calculator: \"A\" }");
        write("a.pbtxt", "type: \"A\"");
        write("a.txt", "type: \"Text\"");
        write(
            "subgraphs/b.pbtxt",
            "type: \"B\" node { calculator: \"A\" }",
        );
        write("subgraphs/c.pbtxt", "type: \"A\"");
        write("other/d.pbtxt", "type: \"D\"");
        let beside = Beside::of(&graph);
        let registry = beside.register(Registry::new());
        let names: Vec<&str> = registry.subgraphs().map(|found| &*found.name).collect();
        assert_eq!(names, ["A", "B"]);
        assert!(
            registry
                .subgraphs()
                .next()
                .is_some_and(|found| found.file.ends_with("/a.pbtxt"))
        );
        let of = |text: &str| {
            let parsed = parse_graph(&mut SourceMap::new(), "graph.pbtxt", text);
            beside.ambiguity(&parsed.graph.expect("a graph"))
        };
        let by_way = of("node { calculator: \"B\" }");
        assert!(by_way.is_some_and(|why| why.contains("subgraphs/c.pbtxt")));
        assert_eq!(of("node { calculator: \"D\" }"), None);

        assert_eq!(
            listed(&folder.path().join("other")).map(|found| found.len()),
            Ok(1)
        );
        assert!(listed(&graph).is_err_and(|why| why.contains("no `type`")));
        assert!(listed(&folder.path().join("none")).is_err_and(|why| why.contains("cannot read")));
    }
}
