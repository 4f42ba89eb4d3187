//! What the tests share: the folder of reference files, and a rendering of diagnostics.

use std::path::PathBuf;

use graphmill_grammar::render::{self, Color};
use graphmill_grammar::{Diagnostic, ParsedGraph, SourceMap, parse_graph};

/// The folder of reference files; none, with a printed line, where it is absent.
#[allow(dead_code, reason = "not every test binary reads reference files")]
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
pub(crate) fn shared(what: &str) -> Option<PathBuf> {
    let root = std::env::var_os("GRAPHMILL_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
        PathBuf::from,
    );
    let folder = root.join(what);
    if folder.exists() {
        return Some(folder);
    }
    println!("skipped: {} is absent", folder.display());
    None
}

/// Parses a graph that is called `graph.pbtxt`.
#[allow(dead_code, reason = "not every test binary parses by this name")]
pub(crate) fn parsed(text: &str) -> (SourceMap, ParsedGraph) {
    let mut sources = SourceMap::new();
    let parsed = parse_graph(&mut sources, "graph.pbtxt", text);
    (sources, parsed)
}

#[allow(dead_code, reason = "not every test binary shows them")]
/// Diagnostics as a terminal shows them, without colour.
pub(crate) fn shown(sources: &SourceMap, diagnostics: &[Diagnostic]) -> String {
    render::human(sources, diagnostics, Color::Plain)
}
