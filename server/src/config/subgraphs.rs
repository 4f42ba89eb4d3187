//! Subgraphs that are files: which of them a graph can use as nodes.
//!
//! A graph file with a `type` can be a node of every graph in its folder and, where its folder is
//! called `subgraphs`, of every graph beside that. `subgraph_list` of the configuration names
//! files, and folders of files, for all graphs.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use graphmill_engine::{FileStamps, Registry, Subgraph};
use graphmill_grammar::{Diagnostic, GraphConfig, SourceMap, Span, parse_graph};

use super::codes;

/// The folder beside a graph whose files are for that folder's graphs alone.
const FOLDER: &str = "subgraphs";

/// Subgraphs by name, each in the order of their files.
type ByName = BTreeMap<String, Vec<Subgraph>>;

/// The subgraphs that a command line names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    /// Files, which come before all others.
    files: ByName,
    /// What lies in folders.
    folders: ByName,
}

impl Named {
    /// Adds a file, or what lies in a folder. The error says what is wrong with it.
    pub(crate) fn add(&mut self, path: &Path) -> Result<(), String> {
        let to = if path.is_dir() {
            &mut self.folders
        } else {
            &mut self.files
        };
        listed(path)?
            .into_iter()
            .for_each(|subgraph| add(to, subgraph));
        Ok(())
    }

    /// With those that were kept from beside a graph.
    pub(crate) fn and_kept(&self, subgraphs: &[Subgraph]) -> Known {
        let mut beside = ByName::new();
        for subgraph in subgraphs {
            let same = beside.entry(subgraph.name.to_string()).or_default();
            same.push(subgraph.clone());
        }
        Known {
            layers: [self.files.clone(), self.folders.clone(), beside],
            folders: None,
        }
    }

    /// With those that the graph `file` can use because they lie beside it.
    pub(crate) fn and_beside(&self, file: &Path) -> Known {
        let folder = match file.parent() {
            None => Path::new("."),
            Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
            Some(folder) => folder,
        };
        let mut beside = ByName::new();
        in_folder(folder)
            .into_iter()
            .chain(in_folder(&folder.join(FOLDER)))
            .for_each(|subgraph| add(&mut beside, subgraph));
        Known {
            layers: [self.files.clone(), self.folders.clone(), beside],
            folders: Some([folder.to_owned(), folder.join(FOLDER)]),
        }
    }
}

/// Adds a subgraph, unless it is there by the same file.
fn add(to: &mut ByName, subgraph: Subgraph) {
    let same = to.entry(subgraph.name.to_string()).or_default();
    let real = |subgraph: &Subgraph| std::fs::canonicalize(&*subgraph.file).ok();
    let is_there = |other: &Subgraph| other.file == subgraph.file || real(other) == real(&subgraph);
    if !same.iter().any(is_there) {
        same.push(subgraph);
    }
}

/// The subgraphs in files that a graph can use.
#[derive(Debug)]
pub(crate) struct Known {
    /// What comes first is taken.
    layers: [ByName; 3],
    /// Where those lie that nobody names, unless they were kept.
    folders: Option<[PathBuf; 2]>,
}

impl Known {
    /// The files that have a type; several where it is not clear which of them is meant.
    fn of(&self, name: &str) -> &[Subgraph] {
        let mut layers = self.layers.iter();
        let found = layers.find_map(|layer| layer.get(name));
        found.map_or(&[], Vec::as_slice)
    }

    /// Adds them to a registry; one that is there already under the same name is replaced.
    pub(crate) fn register(&self, registry: Registry) -> Registry {
        let names = self.layers.iter().flat_map(BTreeMap::keys);
        let first = names.filter_map(|name| self.of(name).first());
        first.cloned().fold(registry, Registry::with_subgraph)
    }

    /// Looks at their files, and at the folders in which others may come up.
    pub(crate) fn look(&self, seen: &mut FileStamps) {
        let folders = self.folders.iter().flatten();
        folders.for_each(|folder| seen.look(folder));
        let subgraphs = self.layers.iter().flat_map(BTreeMap::values).flatten();
        subgraphs.for_each(|subgraph| seen.look(Path::new(&*subgraph.file)));
    }

    /// Those that lie beside the graph.
    pub(crate) fn beside(&self) -> Vec<Subgraph> {
        let [.., beside] = &self.layers;
        beside.values().flatten().cloned().collect()
    }

    /// The types that several files have, as far as the graph, or a subgraph in it, uses them.
    pub(crate) fn ambiguities(
        &self,
        graph: &GraphConfig,
        sources: &mut SourceMap,
    ) -> Vec<Diagnostic> {
        let mut names = calculators(graph);
        names.reverse();
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        while let Some((name, place)) = names.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            match self.of(&name) {
                [first, second, ..] => {
                    found.push(two_files(&name, place, [first, second], sources));
                }
                [only] => {
                    let (file, text) = (only.file.as_ref(), only.text.as_ref());
                    let mut apart = SourceMap::new();
                    let inner = parse_graph(&mut apart, file, text).graph;
                    let inner = inner.iter().flat_map(calculators);
                    // The place in the file would be one of another map; the node that leads there
                    // is in this one.
                    names.extend(inner.map(|(name, _)| (name, place)));
                }
                [] => {}
            }
        }
        found
    }
}

/// Says that two files have the type that a node names.
fn two_files(
    name: &str,
    place: Span,
    files: [&Subgraph; 2],
    sources: &mut SourceMap,
) -> Diagnostic {
    let [first, second] = files;
    let message = format!(
        "`{}` and `{}` both have the type `{name}`, so it is not clear which of them a node is",
        first.file, second.file
    );
    let mut diagnostic = Diagnostic::error(&codes::TWO_FILES, place, message);
    for file in files {
        let parsed = parse_graph(sources, file.file.as_ref(), file.text.as_ref());
        if let Some(written) = parsed.graph.and_then(|graph| graph.r#type) {
            diagnostic = diagnostic.also(written.span, "the type is given here");
        }
    }
    diagnostic.hint(format!(
        "change one of the types, or name the file that is meant: `--subgraphs {}`",
        first.file
    ))
}

/// What the nodes of a graph name.
fn calculators(graph: &GraphConfig) -> Vec<(String, Span)> {
    let named = graph
        .node
        .iter()
        .filter_map(|node| node.calculator.as_ref());
    named.map(|name| (name.value.clone(), name.span)).collect()
}

/// The graph files with a `type` in a folder, by file name; none if it is no folder that can be
/// read.
fn in_folder(folder: &Path) -> Vec<Subgraph> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| {
        let is_graph = file
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("pbtxt"));
        // Reading a pipe would wait for its writer.
        is_graph && file.is_file()
    });
    files.sort();
    let typed = files.iter().filter_map(|file| {
        let text = graphmill_engine::read_text(file).ok()?;
        Subgraph::typed(name_of(file), text)
    });
    typed.collect()
}

/// The file's path as messages show it.
fn name_of(file: &Path) -> String {
    file.strip_prefix(".").unwrap_or(file).display().to_string()
}

/// The subgraphs of an entry of `subgraph_list`: of a file, or of all files in a folder. The error
/// says what is wrong with the entry.
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
    let text = graphmill_engine::read_text(path)
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
        let ambiguities = |named: &Named, text: &str| {
            let mut sources = SourceMap::new();
            let parsed = parse_graph(&mut sources, "graph.pbtxt", text);
            named
                .and_beside(&graph)
                .ambiguities(&parsed.graph.expect("a graph"), &mut sources)
        };
        let none = Named::default();
        let registry = none.and_beside(&graph).register(Registry::new());
        let names: Vec<&str> = registry.subgraphs().map(|found| &*found.name).collect();
        assert_eq!(names, ["A", "B"]);
        let file_of_a = |registry: &Registry| {
            let mut all = registry.subgraphs();
            all.next().expect("it is the first").file.to_string()
        };
        assert!(file_of_a(&registry).ends_with("/a.pbtxt"));
        let by_way = ambiguities(
            &none,
            "node { calculator: \"B\" } node { calculator: \"A\" }",
        );
        assert!(
            matches!(&*by_way, [one] if one.message.contains("subgraphs/c.pbtxt") && one.secondary.len() == 2),
            "{by_way:?}"
        );
        assert_eq!(ambiguities(&none, "node { calculator: \"D\" }"), []);

        // A file that is named wins, also over a folder that is.
        let mut chosen = Named::default();
        chosen
            .add(&folder.path().join("subgraphs"))
            .expect("a folder");
        chosen
            .add(&folder.path().join("subgraphs/c.pbtxt"))
            .expect("a file");
        assert_eq!(ambiguities(&chosen, "node { calculator: \"A\" }"), []);
        let registry = chosen.and_beside(&graph).register(Registry::new());
        assert!(file_of_a(&registry).ends_with("/c.pbtxt"));
        chosen.add(&folder.path().join("a.pbtxt")).expect("a file");
        assert_eq!(ambiguities(&chosen, "node { calculator: \"A\" }").len(), 1);

        assert_eq!(
            listed(&folder.path().join("other")).map(|found| found.len()),
            Ok(1)
        );
        assert!(listed(&graph).is_err_and(|why| why.contains("no `type`")));
        assert!(listed(&folder.path().join("none")).is_err_and(|why| why.contains("cannot read")));
    }
}
