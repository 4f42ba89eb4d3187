//! Subgraphs from files, and the ones that a graph can use as nodes.
//!
//! A graph file with a `type` can be a node of every graph in its folder. If its folder is called
//! `subgraphs`, it can be a node of every graph in the parent folder. `subgraph_list` of the
//! configuration names files, and folders of files, for all graphs.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use graphmill_engine::{FileStamps, Registry, Subgraph};
use graphmill_grammar::{Diagnostic, GraphConfig, SourceMap, Span, parse_graph};

use super::codes;
use crate::replace::parent_folder;

/// Name of a folder whose files only the graphs in its parent folder can use.
const FOLDER: &str = "subgraphs";

/// Subgraphs by name. Several files may have the same name.
type ByName = BTreeMap<String, Vec<Subgraph>>;

/// The subgraphs that a command line names.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedSubgraphs {
    /// Subgraphs from files, which take precedence over all others.
    files: ByName,
    /// Subgraphs from folders, which come after those from files.
    folders: ByName,
}

impl NamedSubgraphs {
    /// Adds a file, or the files in a folder.
    ///
    /// # Errors
    /// If there is no subgraph in it.
    pub(crate) fn add(&mut self, path: &Path) -> Result<(), String> {
        let to = if path.is_dir() {
            &mut self.folders
        } else {
            &mut self.files
        };
        let found = listed(path)?.into_iter();
        found.for_each(|subgraph| add(to, subgraph));
        Ok(())
    }

    /// Returns these subgraphs and `subgraphs`, which were stored with a graph.
    pub(crate) fn and_kept(&self, subgraphs: &[Subgraph]) -> KnownSubgraphs {
        let mut beside = ByName::new();
        for subgraph in subgraphs {
            let same = beside.entry(subgraph.name.to_string()).or_default();
            same.push(subgraph.clone());
        }
        KnownSubgraphs {
            layers: [self.files.clone(), self.folders.clone(), beside],
            folders: None,
        }
    }

    /// Returns these subgraphs and the ones in the folder of the graph `file`.
    pub(crate) fn and_beside(&self, file: &Path) -> KnownSubgraphs {
        let folder = parent_folder(file);
        let mut beside = ByName::new();
        in_folder(folder)
            .into_iter()
            .chain(in_folder(&folder.join(FOLDER)))
            .for_each(|subgraph| add(&mut beside, subgraph));
        KnownSubgraphs {
            layers: [self.files.clone(), self.folders.clone(), beside],
            folders: Some([folder.to_owned(), folder.join(FOLDER)]),
        }
    }
}

/// Adds a subgraph, unless the same file was added before.
fn add(to: &mut ByName, subgraph: Subgraph) {
    let same = to.entry(subgraph.name.to_string()).or_default();
    let real = |subgraph: &Subgraph| std::fs::canonicalize(&*subgraph.file).ok();
    let is_there = |other: &Subgraph| other.file == subgraph.file || real(other) == real(&subgraph);
    if !same.iter().any(is_there) {
        same.push(subgraph);
    }
}

/// The subgraphs from files that a graph can use.
#[derive(Debug)]
pub(crate) struct KnownSubgraphs {
    /// Layers of subgraphs; the first that has a name counts.
    layers: [ByName; 3],
    /// Folders that are searched without being named; `None` for stored subgraphs.
    folders: Option<[PathBuf; 2]>,
}

impl KnownSubgraphs {
    /// Returns the files with a type; several if the type is ambiguous.
    fn get(&self, name: &str) -> &[Subgraph] {
        let mut layers = self.layers.iter();
        let found = layers.find_map(|layer| layer.get(name));
        found.map_or(&[], Vec::as_slice)
    }

    /// Adds the subgraphs to a registry. They replace subgraphs of the same name.
    pub(crate) fn register(&self, registry: Registry) -> Registry {
        let names = self.layers.iter().flat_map(BTreeMap::keys);
        let first = names.filter_map(|name| self.get(name).first());
        first.cloned().fold(registry, Registry::with_subgraph)
    }

    /// Records the state of the files, and of the folders where others may be added.
    pub(crate) fn look(&self, seen: &mut FileStamps) {
        let folders = self.folders.iter().flatten();
        folders.for_each(|folder| seen.look(folder));
        let subgraphs = self.layers.iter().flat_map(BTreeMap::values).flatten();
        subgraphs.for_each(|subgraph| seen.look(Path::new(&*subgraph.file)));
    }

    /// Returns the subgraphs from the graph's folder.
    pub(crate) fn beside(&self) -> Vec<Subgraph> {
        let [.., beside] = &self.layers;
        beside.values().flatten().cloned().collect()
    }

    /// Returns diagnostics for types with several files that the graph, or a subgraph in it, uses.
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
            match self.get(&name) {
                [first, second, ..] => {
                    found.push(two_files(&name, place, [first, second], sources));
                }
                [only] => {
                    let (file, text) = (only.file.as_ref(), only.text.as_ref());
                    let mut apart = SourceMap::new();
                    let inner = parse_graph(&mut apart, file, text).graph;
                    let inner = inner.iter().flat_map(calculators);
                    // The position would be one in another source map. The position of the outer
                    // node is in this one.
                    names.extend(inner.map(|(name, _)| (name, place)));
                }
                [] => {}
            }
        }
        found
    }
}

/// Reports that two files have the type that a node names.
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
    let file = &first.file;
    let hint = "change one of the types, or name the file that is meant";
    diagnostic.hint(format!("{hint}: `--subgraphs {file}`"))
}

/// Returns the calculators that the nodes of a graph name.
fn calculators(graph: &GraphConfig) -> Vec<(String, Span)> {
    let named = graph.node.iter().filter_map(|it| it.calculator.as_ref());
    named.map(|name| (name.value.clone(), name.span)).collect()
}

/// Returns the graph files with a `type` in a folder, sorted by name; none if the folder cannot be
/// read.
fn in_folder(folder: &Path) -> Vec<Subgraph> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| {
        let extension = file.extension();
        let is_graph = extension.is_some_and(|it| it.eq_ignore_ascii_case("pbtxt"));
        // Opening a pipe would wait for its writer.
        is_graph && file.is_file()
    });
    files.sort();
    let typed = files.iter().filter_map(|file| {
        let text = graphmill_engine::read_text(file).ok()?;
        Subgraph::typed(name_of(file), text)
    });
    typed.collect()
}

/// Returns the path of a file for messages.
fn name_of(file: &Path) -> String {
    file.strip_prefix(".").unwrap_or(file).display().to_string()
}

/// Returns the subgraphs of an entry of `subgraph_list`: of a file, or of all files in a folder.
///
/// # Errors
/// If there is no subgraph in it.
pub(crate) fn listed(path: &Path) -> Result<Vec<Subgraph>, String> {
    let shown = path.display();
    if path.is_dir() {
        let found = in_folder(path);
        if found.is_empty() {
            return Err(format!("there is no graph file with a `type` in `{shown}`"));
        }
        return Ok(found);
    }
    let text = graphmill_engine::read_text(path)
        .map_err(|error| format!("cannot read `{shown}`: {error}"))?;
    let subgraph = Subgraph::typed(name_of(path), text).map(|subgraph| vec![subgraph]);
    subgraph.ok_or_else(|| format!("`{shown}` has no `type`, so no node can name it"))
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
        let ambiguities = |named: &NamedSubgraphs, text: &str| {
            let mut sources = SourceMap::new();
            let parsed = parse_graph(&mut sources, "graph.pbtxt", text);
            named
                .and_beside(&graph)
                .ambiguities(&parsed.graph.expect("a graph"), &mut sources)
        };
        let none = NamedSubgraphs::default();
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
        let mut chosen = NamedSubgraphs::default();
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
