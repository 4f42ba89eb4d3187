//! The tables of families in the documentation, which are written from those of the code.

use std::fmt::Write as _;

use crate::text::formats::Formats;
use crate::text::{reasoning, tool_calls};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/rest.md");

fn cell(text: &str) -> String {
    let text = text.replace('\n', "↵").replace('|', "\\|");
    if text.is_empty() {
        text
    } else {
        format!("`{text}`")
    }
}

/// The rows of a table, each a family's name, what it writes, what a template has that teaches it,
/// and other names for it.
fn rows<F: ?Sized>(formats: &Formats<F>, written: impl Fn(&F) -> String) -> String {
    let mut rows = String::new();
    for named in formats.all {
        let [name, others @ ..] = named.names else {
            panic!("a format has a name");
        };
        let listed = |texts: &[&str], between: &str| {
            let cells: Vec<_> = texts.iter().map(|text| cell(text)).collect();
            cells.join(between)
        };
        let taught: Vec<_> = named
            .taught_by
            .iter()
            .map(|marks| listed(marks, " and "))
            .collect();
        let (taught, others) = (taught.join(", or "), listed(others, ", "));
        writeln!(
            rows,
            "| `{name}` | {} | {taught} | {others} |",
            written(named.format)
        )
        .expect("text");
    }
    rows
}

#[test]
fn the_documentation_lists_all_families() {
    let calls = rows(&tool_calls::FORMATS, |family| {
        let pattern = &family.patterns[0];
        let (open, close) = pattern.section;
        let written = format!("{open}{}{close}", pattern.call);
        let written = written.split("$?").next().unwrap_or_default();
        cell(&written.replace("$parameters", pattern.parameter))
    });
    let thoughts = rows(&reasoning::FORMATS, |format| {
        let marks = format.marks("");
        format!("{} {}", cell(&marks.begin), cell(&marks.end))
    });
    let mut page = std::fs::read_to_string(PAGE).expect("the page");
    for (head, rows) in [
        (
            "| `tool_parser` | how calls are written | taught by | other names |\n|---|---|---|---|\n",
            calls,
        ),
        (
            "| `reasoning_parser` | begin and end | taught by | other names |\n|---|---|---|---|\n",
            thoughts,
        ),
    ] {
        let (before, table) = page.split_once(head).expect("the head of the table");
        let end = table.find("\n\n").map_or(table.len(), |end| end + 1);
        let (documented, after) = table.split_at(end);
        if std::env::var_os("UPDATE").is_none() {
            assert_eq!(documented, rows, "run this test with UPDATE=1");
        }
        page = format!("{before}{head}{rows}{after}");
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, page).expect("the page is written");
    }
}
