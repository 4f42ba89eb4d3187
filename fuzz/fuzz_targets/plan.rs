//! Any graph compiles to a plan or gives errors.
#![no_main]

use graphmill_calculators as _;
use graphmill_engine::{Environment, Plan, Registry};
use graphmill_grammar::render::{self, Color};
use graphmill_grammar::{SourceMap, diag, parse_graph};
use graphmill_mediapipe as _;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut sources = SourceMap::new();
    let parsed = parse_graph(&mut sources, "fuzz.pbtxt", bytes);
    let Some(graph) = parsed.graph else { return };
    let environment = Environment::new(Registry::global());
    let (plan, found) = Plan::compile(&graph, &mut sources, &environment);
    assert!(plan.is_some() || diag::has_errors(&found) || diag::has_errors(&parsed.diagnostics));
    render::human(&sources, &found, Color::Plain);
});
