//! Mistakes in graphs as their authors see them.
//!
//! Every kind of mistake has an example that shows it and nothing else, and a correction that shows nothing; where a hint
//! comes with edits, the edits remove the mistake. `tests/diagnostics` holds files with several mistakes beside what is
//! shown for them. After a change, `UPDATE=1 cargo test --release --workspace --test diagnostics` writes the latter anew.

use std::{collections::BTreeSet, path::Path};

use graphmill_calculators as _;
use graphmill_engine::{Environment, Plan, Registry, Subgraph, codes};
use graphmill_grammar::{
    Diagnostic, SourceMap,
    diag::{Edit, sort},
    parse_graph,
    render::{self, Color},
};

/// The files of an example: one, or several of which each begins with its name in a comment. The first is the graph.
fn files(text: &str) -> Vec<(&str, &str)> {
    let is_name = |line: &str| line.starts_with("# ") && line.trim_end().ends_with(".pbtxt");
    let mut starts = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if is_name(line) {
            starts.push((line[2..].trim_end(), at + line.len(), at));
        }
        at += line.len();
    }
    if starts.is_empty() {
        return vec![("graph.pbtxt", text)];
    }
    let ends = starts
        .iter()
        .skip(1)
        .map(|start| start.2)
        .chain([text.len()]);
    let files = starts.iter().zip(ends);
    files
        .map(|(&(name, start, _), end)| (name, &text[start..end]))
        .collect()
}

/// Everything that is wrong with an example. Files with a `type` can be nodes, even of themselves.
fn check(text: &str, load: bool) -> (SourceMap, Vec<Diagnostic>) {
    let mut registry = Registry::global();
    let files = files(text);
    for (name, text) in &files {
        if let Some(subgraph) = Subgraph::typed((*name).to_owned(), (*text).to_owned()) {
            registry = registry.with_subgraph(subgraph);
        }
    }
    let mut environment = Environment::new(registry);
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

fn shown((sources, diagnostics): &(SourceMap, Vec<Diagnostic>)) -> String {
    render::human(sources, diagnostics, Color::Plain)
}

/// The text with the edits made.
fn edited(text: &str, edits: &[Edit]) -> String {
    // The first file, where there are several.
    let mut text = files(text)[0].1.to_owned();
    let mut edits: Vec<&Edit> = edits.iter().collect();
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.span.start));
    for edit in edits {
        text.replace_range(edit.span.range(), &edit.replacement);
    }
    text
}

#[test]
fn every_example_shows_its_mistake_and_no_other() {
    let mut failures = String::new();
    for code in codes::all().filter(|code| !code.wrong.is_empty()) {
        let found = check(code.wrong, true);
        if !matches!(&*found.1, [one] if one.code == code) {
            failures += &format!("{code}: {}\n{}\n", code.wrong, shown(&found));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn every_correction_is_clean() {
    let mut failures = String::new();
    for code in codes::all() {
        let found = check(code.right, false);
        if !found.1.is_empty() {
            failures += &format!("{code}: {}\n{}\n", code.right, shown(&found));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn edits_remove_what_they_are_a_hint_for() {
    let texts = codes::all().map(|code| code.wrong.to_owned());
    let mut fixed = BTreeSet::new();
    for text in texts.chain(cases().map(|(_, text, _)| text)) {
        for diagnostic in check(&text, false).1 {
            for hint in diagnostic
                .hints
                .iter()
                .filter(|hint| !hint.edits.is_empty())
            {
                let after = edited(&text, &hint.edits);
                let left = check(&after, false);
                assert!(
                    !left.1.iter().any(|left| left.message == diagnostic.message),
                    "{}\n{after}\n{}",
                    hint.text,
                    shown(&left)
                );
                fixed.insert(diagnostic.code.number);
            }
        }
    }
    assert!(fixed.len() >= 15, "only these come with edits: {fixed:?}");
}

/// The name, the text and the file of what is shown for each file with mistakes.
fn cases() -> impl Iterator<Item = (String, String, std::path::PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics");
    let entries = std::fs::read_dir(folder).expect("the folder of cases");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "pbtxt")
    });
    files.sort();
    files.into_iter().map(|file| {
        let text = std::fs::read_to_string(&file).expect("a case");
        let name = file.display().to_string();
        (name, text, file.with_extension("txt"))
    })
}

#[test]
fn files_with_several_mistakes_show_each_of_them_once() {
    for (name, text, expected) in cases() {
        let found = shown(&check(&text, false));
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&expected, &found).expect("a writable folder");
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        assert!(
            found == expected,
            "{name} shows\n{found}\nbut was expected to show\n{expected}"
        );
    }
}
