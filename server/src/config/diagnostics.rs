//! The reference of diagnostics: each code with its explanation, an example, and the output for the
//! example.
//!
//! The page `docs/reference/diagnostics.md`, `graphmill check --explain` and the tests use the same
//! registries of codes as the checks. The checks themselves produce the output of an example.

use std::{fmt::Write as _, path::Path};

use graphmill_engine::{Environment, Files, Plan, Registry, Subgraph};
use graphmill_grammar::{
    Code, Diagnostic, SourceMap,
    diag::sort,
    parse_graph,
    render::{self, Color},
};

use crate::config;

/// Themes of the reference: the first two digits of their codes, and a heading.
const THEMES: [(u16, &str); 9] = [
    (1, "Syntax"),
    (2, "Fields, options, port names"),
    (3, "Streams and input policies"),
    (4, "Types"),
    (5, "Side packets and resources"),
    (6, "Loops"),
    (7, "Executors"),
    (8, "Calculators and subgraphs"),
    (9, "`config.json`, and which files are subgraphs"),
];

/// Returns all codes, by number.
pub fn codes() -> impl Iterator<Item = &'static Code> {
    graphmill_grammar::codes::all()
        .chain(graphmill_engine::codes::all())
        .chain(config::codes::ALL.iter().copied())
}

/// Finds the code that `GM0301`, `gm301` or `301` means.
pub fn find(written: &str) -> Option<&'static Code> {
    let digits = written.trim_start_matches(['G', 'M', 'g', 'm']);
    let number: u16 = digits.parse().ok()?;
    codes().find(|code| code.number == number)
}

/// Returns true for codes about a `config.json`, not about a graph or a model of Triton.
fn is_about_config(code: &Code) -> bool {
    config::codes::ALL.contains(&code) && code != &config::codes::TRITON
}

/// Splits an example into files: one, or several that begin with their names in comments. The first
/// is the graph.
pub fn files(example: &str) -> Vec<(&str, &str)> {
    let mut starts = Vec::new();
    let mut at = 0;
    for line in example.split_inclusive('\n') {
        let comment = line.trim_end().strip_prefix("# ");
        if let Some(name) = comment.filter(|name| name.strip_suffix(".pbtxt").is_some()) {
            starts.push((name, at + line.len(), at));
        }
        at += line.len();
    }
    if starts.is_empty() {
        return vec![("graph.pbtxt", example)];
    }
    let ends = starts.iter().skip(1).map(|start| start.2);
    let files = starts.iter().zip(ends.chain([example.len()]));
    files
        .map(|(&(name, start, _), end)| (name, &example[start..end]))
        .collect()
}

/// Checks an example graph. Its files with a `type` can be nodes, even of themselves. If `load` is
/// true, the resources of a graph without other errors are loaded.
pub fn check(example: &str, load: bool) -> (SourceMap, Vec<Diagnostic>) {
    let files = files(example);
    let typed = files
        .iter()
        .filter_map(|(name, text)| Subgraph::typed((*name).to_owned(), (*text).to_owned()));
    let registry = typed.fold(Registry::global(), Registry::with_subgraph);
    let mut environment = Environment::new(registry).with_files(Files::new("/graphs/example"));
    if !load {
        environment = environment.without_loading();
    }
    let mut sources = SourceMap::new();
    let parsed = parse_graph(&mut sources, files[0].0, files[0].1);
    let mut diagnostics = parsed.diagnostics;
    if let Some(graph) = parsed.graph {
        diagnostics.extend(Plan::compile(&graph, &mut sources, &environment).1);
        sort(&mut diagnostics);
    }
    (sources, diagnostics)
}

/// Returns the output for the example of a code; empty if the example cannot be checked.
pub fn shown(code: &Code) -> String {
    let (sources, mut diagnostics) = if is_about_config(code) {
        let loaded = config::parse(Path::new("config.json"), code.wrong);
        (loaded.sources, loaded.diagnostics)
    } else {
        check(code.wrong, true)
    };
    diagnostics.retain(|diagnostic| diagnostic.code == code);
    diagnostics.truncate(1);
    render::human(&sources, &diagnostics, Color::Plain)
}

/// Returns the reference of one code as Markdown.
pub fn entry(code: &Code) -> String {
    let language = if is_about_config(code) {
        "json"
    } else {
        "pbtxt"
    };
    let block = |language: &str, text: &str| format!("\n```{language}\n{}\n```\n", text.trim_end());
    let mut text = format!("### {code}: {}\n\n{}\n", code.title, code.explanation);
    if !code.wrong.is_empty() {
        text += &block(language, code.wrong);
    }
    let shown = shown(code);
    if !shown.is_empty() {
        text += &block("text", &shown);
    }
    if !code.right.is_empty() {
        text += "\nWithout the mistake:\n";
        text += &block(language, code.right);
    }
    text
}

/// Returns the whole reference as Markdown.
pub fn page() -> String {
    let mut page = "# Diagnostics\n\n\
        Everything that `graphmill check` and the server say about graph files and `config.json`, by code. \
        `graphmill check --explain GM0301` prints one entry. Errors keep a graph from running; warnings do not. Hints with a `+` \
        are edits, which editors get as such from `graphmill check --format json`.\n\n\
        This page is generated: `UPDATE=1 cargo test --release --workspace --test suite diagnostics` writes it anew.\n"
        .to_owned();
    for (theme, heading) in THEMES {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "\n## {heading}");
        for code in codes().filter(|code| code.number / 100 == theme) {
            page.push('\n');
            page += &entry(code);
        }
    }
    page
}
