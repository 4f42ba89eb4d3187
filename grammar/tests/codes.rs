//! The registry of codes: its examples are what they claim to be.

use graphmill_grammar::codes::{self, fields, syntax};
use graphmill_grammar::render::{self, Color};
use graphmill_grammar::{Diagnostic, SourceMap, from_options, parse_graph};
use serde::Deserialize;

use crate::common;

#[derive(Default, Deserialize)]
#[serde(default)]
struct ThreadPoolExecutorOptions {
    #[serde(rename = "require_processor_performance")]
    _performance: Performance,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Performance {
    #[default]
    Normal,
    Low,
    High,
}

/// Everything that is wrong with a file, the options of its executors included.
fn diagnostics(text: &str) -> (SourceMap, Vec<Diagnostic>) {
    let mut sources = SourceMap::new();
    let parsed = parse_graph(&mut sources, "example.pbtxt", text);
    let mut diagnostics = parsed.diagnostics;
    let executors = parsed.graph.into_iter().flat_map(|graph| graph.executor);
    for options in executors
        .filter_map(|executor| executor.options)
        .flat_map(|options| options.messages)
    {
        diagnostics.extend(
            from_options::<ThreadPoolExecutorOptions>(&options)
                .err()
                .unwrap_or_default(),
        );
    }
    (sources, diagnostics)
}

#[test]
fn every_example_shows_its_code_and_its_correction_shows_nothing() {
    for code in codes::all().filter(|code| !code.wrong.is_empty()) {
        let (sources, found) = diagnostics(code.wrong);
        let shown = common::shown(&sources, &found);
        assert!(
            found.iter().any(|diagnostic| diagnostic.code == code),
            "{code} is not among\n{shown}"
        );
        let (sources, found) = diagnostics(code.right);
        assert!(
            found.is_empty(),
            "{code}\n{}",
            common::shown(&sources, &found)
        );
    }
}

#[test]
fn an_example_shows_one_mistake_only() {
    for code in codes::all().filter(|code| !code.wrong.is_empty()) {
        let (sources, found) = diagnostics(code.wrong);
        assert_eq!(
            found.len(),
            1,
            "{code}\n{}",
            common::shown(&sources, &found)
        );
    }
}

#[test]
fn numbers_are_unique_and_in_order_and_every_code_is_explained() {
    let all: Vec<_> = codes::all().collect();
    assert!(all.windows(2).all(|pair| pair[0].number < pair[1].number));
    for code in all {
        assert!(
            code.explanation.ends_with('.') && code.explanation.len() > 40,
            "{code}"
        );
        assert!(
            code.title.starts_with(|c: char| c.is_lowercase()) || code.title.starts_with("Any"),
            "{code}"
        );
    }
    assert_eq!(fields::UNKNOWN_FIELD.to_string(), "GM0201");
}

#[test]
fn a_file_that_is_no_text_is_refused_with_the_place() {
    let mut sources = SourceMap::new();
    let parsed = parse_graph(
        &mut sources,
        "graph.pbtxt",
        b"input_stream: \"in\"\nnode \xff\xfe{}".as_slice(),
    );
    assert!(parsed.graph.is_none());
    insta::assert_snapshot!(common::shown(&sources, &parsed.diagnostics),
            @r#"
        error[GM0115]: the file is not UTF-8 text
         --> graph.pbtxt:2:6
          |
        2 | node ��{}
          |      ^ byte 0xff does not begin a character
          |
          = help: save the file as UTF-8
        "#
    );
}

#[test]
fn a_file_that_is_no_graph_is_said_to_be_none_once() {
    let utf_16: Vec<u8> = "node { calculator: \"A\" }\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let log = "2026-11-23T12:00:00 INFO server: request 17 took 3 ms (type: chat)\n".repeat(70_000);
    let rust = "// A program.\nuse std::{fmt, io};\n\nstruct Options { name: String }\n\nfn main() {\n    let x = 1;\n    println!(\"{x}\");\n}\n";
    let read_me = "# Title\n\nSome words about it.\n\n- a list, and `code`\n\n```pbtxt\nnode { calculator: \"A\" }\n```\n\nAnd some more words.\n";
    let (unusable, no_graph) = (&syntax::UNUSABLE_FILE, &fields::NOT_A_GRAPH);
    for (name, contents, code, said) in [
        (
            "a PNG",
            b"\x89PNG\r\n\x1a\n\0\0".as_slice(),
            unusable,
            "a PNG image",
        ),
        (
            "a model",
            b"GGUF\x03\0\0\0".as_slice(),
            unusable,
            "a GGUF model",
        ),
        ("zeros", [0; 600].as_slice(), unusable, "binary data"),
        ("UTF-16", &utf_16, unusable, "UTF-16 text"),
        (
            "UTF-16 with a mark",
            b"\xff\xfen\0".as_slice(),
            unusable,
            "UTF-16 text",
        ),
        (
            "JSON",
            b"{\"node\": [{\"calculator\": \"A\"}], \"input_stream\": \"in\"}".as_slice(),
            no_graph,
            "JSON",
        ),
        (
            "a JSON list",
            b"[\n  {\"a\": 1}\n]".as_slice(),
            no_graph,
            "JSON",
        ),
        (
            "HTML",
            b"<!doctype html>\n<p class=\"x\">a</p>".as_slice(),
            no_graph,
            "HTML",
        ),
        (
            "YAML",
            b"a: 1\nb:\n  - c\n  - d: \"x\"\n".as_slice(),
            no_graph,
            "not a graph file",
        ),
        (
            "TOML",
            b"[package]\nname = \"x\"\n".as_slice(),
            no_graph,
            "not a graph file",
        ),
        ("a log", log.as_bytes(), no_graph, "not a graph file"),
        ("Rust", rust.as_bytes(), no_graph, "not a graph file"),
        ("a README", read_me.as_bytes(), no_graph, "not a graph file"),
    ] {
        let mut sources = SourceMap::new();
        let parsed = parse_graph(&mut sources, "graph.pbtxt", contents);
        let shown = common::shown(&sources, &parsed.diagnostics);
        assert!(parsed.graph.is_none(), "{name}");
        assert!(
            matches!(&*parsed.diagnostics, [one] if one.code == code && one.message.contains(said)),
            "{name}: {shown}"
        );
        let formatted = graphmill_grammar::fmt::format(&mut sources, "graph.pbtxt", contents);
        assert!(
            formatted.is_ok() || formatted.is_err_and(|found| found.len() == 1),
            "{name}"
        );
    }
}

#[test]
fn a_graph_with_mistakes_is_still_a_graph() {
    let license = "// one line\n".repeat(40);
    for text in [
        &*format!("{license}node {{ calculator: \"A\" }}\n"),
        "This is my graph.\nnode { calculator: \"A\" }\nnode { calculator: \"B\" }\n",
        "nodee { calculator: \"A\" }\ninput_steam: \"in\"\n",
        "node { calculater: \"A\" inputs: 1 outputs: 2 x y z }\n",
        "{ calculator: \"A\" }\n",
    ] {
        let parsed = parse_graph(&mut SourceMap::new(), "graph.pbtxt", text);
        let codes: Vec<_> = parsed.diagnostics.iter().map(|it| it.code).collect();
        assert!(!codes.contains(&&fields::NOT_A_GRAPH), "{text}: {codes:?}");
    }
}

#[test]
fn more_than_a_hundred_errors_are_cut() {
    let (sources, found) = diagnostics(&format!("num_threads: 1\n{}", "colour: 1\n".repeat(1000)));
    let (last, listed) = found.split_last().expect("many");
    assert_eq!(
        (listed.len(), last.code),
        (100, &codes::syntax::TOO_MANY_ERRORS)
    );
    assert_eq!(
        sources.locate(last.primary.span).as_deref(),
        Some("example.pbtxt:102:1")
    );
}

#[test]
fn programs_get_the_same_facts_as_json() {
    let (sources, found) =
        diagnostics("num_threads: 1\nnum_threads: 2\nnode { calculater: \"é\" }\n");
    let json: Vec<_> = found
        .iter()
        .map(|diagnostic| render::json(&sources, diagnostic))
        .collect();
    let text = serde_json::to_string_pretty(&json).expect("plain data");
    insta::assert_snapshot!(
        text,
        @r#"
        [
          {
            "code": "GM0202",
            "title": "field given twice",
            "severity": "error",
            "message": "`num_threads` is given twice",
            "place": {
              "file": "example.pbtxt",
              "line": 2,
              "column": 1,
              "end_line": 2,
              "end_column": 12,
              "start": 15,
              "end": 26,
              "label": "given again here"
            },
            "related": [
              {
                "file": "example.pbtxt",
                "line": 1,
                "column": 14,
                "end_line": 1,
                "end_column": 15,
                "start": 13,
                "end": 14,
                "label": "first given here"
              }
            ],
            "hints": []
          },
          {
            "code": "GM0201",
            "title": "unknown field",
            "severity": "error",
            "message": "`Node` has no field `calculater`",
            "place": {
              "file": "example.pbtxt",
              "line": 3,
              "column": 8,
              "end_line": 3,
              "end_column": 18,
              "start": 37,
              "end": 47,
              "label": "unknown field"
            },
            "related": [],
            "hints": [
              {
                "text": "did you mean `calculator`?",
                "edits": [
                  {
                    "file": "example.pbtxt",
                    "line": 3,
                    "column": 8,
                    "end_line": 3,
                    "end_column": 18,
                    "start": 37,
                    "end": 47,
                    "label": "",
                    "replacement": "calculator"
                  }
                ]
              }
            ]
          }
        ]
        "#
    );
}

#[test]
fn colours_are_on_request() {
    let (sources, found) = diagnostics("colour: 1 num_threads: 1");
    assert!(render::human(&sources, &found, Color::Ansi).contains('\u{1b}'));
    assert!(!render::human(&sources, &found, Color::Plain).contains('\u{1b}'));
    assert_eq!(render::summary(&found).as_deref(), Some("1 error"));
    assert_eq!(render::summary(&[]), None);
}
