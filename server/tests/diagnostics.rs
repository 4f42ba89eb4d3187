//! Mistakes in graphs as their authors see them.
//!
//! Every kind of mistake has an example that shows it and nothing else, and a correction that shows
//! nothing; where a hint comes with edits, the edits remove the mistake. `tests/diagnostics` holds
//! files with several mistakes beside what is shown for them. After a change,
//! `UPDATE=1 cargo test --release --workspace --test suite diagnostics` writes the latter and the
//! reference page anew.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use graphmill_engine::codes;
use graphmill_grammar::{
    Diagnostic, SourceMap,
    diag::Edit,
    render::{self, Color},
};
use graphmill_server::{
    config::codes as config_codes,
    diagnostics::{self, check, files},
};

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
    let mut failures = Vec::new();
    for code in codes::all().filter(|code| !code.wrong.is_empty()) {
        let found = check(code.wrong, true);
        if !matches!(&*found.1, [one] if one.code == code) {
            failures.push(format!("{code}: {}\n{}", code.wrong, shown(&found)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_correction_is_clean() {
    let mut failures = Vec::new();
    for code in codes::all() {
        let found = check(code.right, false);
        if !found.1.is_empty() {
            failures.push(format!("{code}: {}\n{}", code.right, shown(&found)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
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
fn cases() -> impl Iterator<Item = (String, String, PathBuf)> {
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

/// Compares a file with what it should hold, or writes it where that is asked for.
#[track_caller]
fn assert_current(file: &Path, text: &str) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(file, text).expect("a writable folder");
    }
    let found = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        found == text,
        "{} is not current; it should be\n{text}",
        file.display()
    );
}

#[test]
fn files_with_several_mistakes_show_each_of_them_once() {
    for (_, text, expected) in cases() {
        assert_current(&expected, &shown(&check(&text, false)));
    }
}

#[test]
fn the_reference_page_is_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/diagnostics.md");
    assert_current(&page, &diagnostics::page());
}

#[test]
fn every_code_is_found_and_shows_what_it_is_about() {
    let numbers: Vec<u16> = diagnostics::codes().map(|code| code.number).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    for code in diagnostics::codes() {
        assert_eq!(diagnostics::find(&code.to_string()), Some(code));
        // There is no text that is no file, and a model of Triton is a folder.
        let has_no_text = [&config_codes::UNREADABLE, &config_codes::TRITON].contains(&code);
        let is_text = !code.wrong.is_empty() && !has_no_text;
        assert_eq!(!diagnostics::shown(code).is_empty(), is_text, "{code}");
    }
    assert_eq!(diagnostics::find("gm301"), diagnostics::find("GM0301"));
    assert_eq!(diagnostics::find("GM"), None);
}
