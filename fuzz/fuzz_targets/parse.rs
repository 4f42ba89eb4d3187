//! Any bytes give a graph or errors, and every error can be shown.
#![no_main]

use graphmill_grammar::render::{self, Color};
use graphmill_grammar::{SourceMap, parse_graph};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut sources = SourceMap::new();
    let parsed = parse_graph(&mut sources, "fuzz.pbtxt", bytes);
    render::human(&sources, &parsed.diagnostics, Color::Plain);
    assert!(parsed.graph.is_some() || !parsed.diagnostics.is_empty());
});
