//! The graphs that are measured.

use std::{fmt::Write as _, sync::Arc};

use graphmill_engine::{Environment, Plan, Registry};
use graphmill_grammar::{SourceMap, parse_graph, render};

// Nothing else names the crates, and a crate that nothing names is not linked.
use graphmill_calculators as _;
use graphmill_mediapipe as _;

/// Compiles a graph against all calculators that are linked.
///
/// # Panics
///
/// If the graph has a mistake.
pub fn compile(text: &str) -> Arc<Plan> {
    let mut sources = SourceMap::new();
    let parsed = parse_graph(&mut sources, "bench.pbtxt", text);
    let graph = parsed.graph.expect("the text is a graph");
    let environment = Environment::new(Registry::global());
    let (plan, diagnostics) = Plan::compile(&graph, &mut sources, &environment);
    plan.unwrap_or_else(|| {
        panic!(
            "{}",
            render::human(&sources, &diagnostics, render::Color::Plain)
        )
    })
}

/// `length` nodes of one calculator in a row, from `in` to `out`; `rest` is added to each node.
pub fn chain(calculator: &str, length: usize, rest: &str) -> String {
    let mut text = String::from("input_stream: \"in\" output_stream: \"out\"\n");
    let stream = |number: usize| match number {
        0 => "in".to_owned(),
        number if number == length => "out".to_owned(),
        number => format!("s{number}"),
    };
    for number in 0..length {
        let (from, to) = (stream(number), stream(number + 1));
        writeln!(
            text,
            "node {{ calculator: \"{calculator}\" input_stream: \"{from}\" output_stream: \"{to}\" {rest} }}"
        )
        .expect("a string takes all");
    }
    text
}

/// `in` to `width` nodes of one calculator and from all of them to one that waits for all, which
/// writes `out`.
pub fn fan(calculator: &str, width: usize, rest: &str) -> String {
    let mut text = String::from("input_stream: \"in\" output_stream: \"out\"\n");
    let (mut from, mut to) = (String::new(), String::new());
    for number in 0..width {
        writeln!(
            text,
            "node {{ calculator: \"{calculator}\" input_stream: \"in\" output_stream: \"b{number}\" {rest} }}"
        )
        .and_then(|()| write!(from, "input_stream: \"b{number}\" "))
        .and_then(|()| match number {
            0 => write!(to, "output_stream: \"out\" "),
            number => write!(to, "output_stream: \"c{number}\" "),
        })
        .expect("a string takes all");
    }
    text + &format!("node {{ calculator: \"PassThroughCalculator\" {from}{to}}}\n")
}
