//! Whatever the text is: no panic, no overflow of the stack, no quadratic time, and every place
//! inside the file.

use std::fs;

use graphmill_grammar::ast::{Message, Value, ValueKind};
use graphmill_grammar::codes::syntax;
use graphmill_grammar::diag::MAX_LISTED;
use graphmill_grammar::render::{self, Color};
use graphmill_grammar::{Diagnostic, SourceMap, Span, de, fmt, parse, parse_graph};
use proptest::prelude::*;

use crate::common;

/// Reads the bytes in every way there is and checks every place that is given.
fn read(bytes: &[u8]) -> Vec<Diagnostic> {
    let mut sources = SourceMap::new();
    let parsed = parse_graph(&mut sources, "garbage.pbtxt", bytes);
    for diagnostic in &parsed.diagnostics {
        let edits = diagnostic
            .hints
            .iter()
            .flat_map(|hint| &hint.edits)
            .map(|edit| edit.span);
        let labels = diagnostic.secondary.iter().map(|label| label.span);
        for span in [diagnostic.primary.span]
            .into_iter()
            .chain(labels)
            .chain(edits)
        {
            check(&sources, span);
        }
        assert_ne!(
            diagnostic.message, "the file cannot be read from here",
            "the grammar matches all balanced text"
        );
        serde_json::to_string(&render::json(&sources, diagnostic)).expect("plain data");
    }
    render::human(&sources, &parsed.diagnostics, Color::Plain);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let file = sources.add("garbage.pbtxt", text);
        let (tree, _) = parse(&sources, file);
        check_message(&sources, &tree.root);
        tree.comments
            .iter()
            .for_each(|&comment| check(&sources, comment));
        if let Ok(formatted) = fmt::format(&mut sources, "garbage.pbtxt", bytes) {
            let again = fmt::format(&mut sources, "formatted.pbtxt", formatted.as_str());
            assert_eq!(again, Ok(formatted));
        }
        let options: Result<serde_json::Value, _> =
            de::from_message(&tree.root, "Options", tree.root.head());
        if let Err(diagnostics) = options {
            for diagnostic in &diagnostics {
                check(&sources, diagnostic.primary.span);
            }
        }
    }
    parsed.diagnostics
}

fn check(sources: &SourceMap, span: Span) {
    let text = sources.text(span.file);
    assert!(
        text.get(span.range()).is_some(),
        "{span:?} in a text of {} bytes",
        text.len()
    );
}

fn check_message(sources: &SourceMap, message: &Message) {
    check(sources, message.span);
    for field in &message.fields {
        check(sources, field.span);
        check(sources, field.name.span);
        assert!(field.span.contains(field.name.span));
        check_value(sources, &field.value);
    }
}

fn check_value(sources: &SourceMap, value: &Value) {
    check(sources, value.span);
    match &value.value {
        ValueKind::Message(message) => check_message(sources, message),
        ValueKind::List(values) => values.iter().for_each(|value| check_value(sources, value)),
        ValueKind::String(string) => {
            for (start, character) in string.as_str().unwrap_or_default().char_indices() {
                let span = string.span_of(start..start + character.len_utf8());
                check(sources, span);
                assert!(
                    !span.is_empty() && value.span.contains(span),
                    "{span:?} outside {:?}",
                    value.span
                );
            }
        }
        ValueKind::Number(_) | ValueKind::Identifier { .. } | ValueKind::Invalid => {}
    }
}

/// Pieces of the language, so that garbage gets past the first character.
const PIECES: &[&str] = &[
    "{",
    "}",
    "<",
    ">",
    "[",
    "]",
    ":",
    ",",
    ";",
    "-",
    "/",
    "\"",
    "'",
    "\\",
    "#",
    "\n",
    " ",
    "\t",
    "\r\n",
    "\u{FEFF}",
    "node",
    "calculator",
    "input_stream",
    "options",
    "tag_index",
    "x",
    "_",
    "0",
    "017",
    "09",
    "0x",
    "1e",
    "1.5f",
    ".",
    "..",
    "inf",
    "true",
    "\"A:1:b\"",
    "'\\x41\\u00e9\\U0001F600'",
    "\"\\q\"",
    "[type.googleapis.com/a.B]",
    "[a.b.ext]",
    "//",
    "/*",
    "*/",
    "=",
    "é",
    "\u{1F600}",
    "“",
    "\0",
    "node {",
    "}\n",
    "input_stream: \"A:b\"\n",
    "node_options: {",
];

/// Excerpts to damage, where the reference files are absent.
const EXCERPTS: &[&str] = &[
    "node {\n  calculator: \"A\"\n  input_stream: \"T:0:a\"\n  options { [m.A.ext] { x: [1, 2] } }\n}\n",
    "input_stream: 'a' # comment\nnode: < calculator: \"A\" \"B\" node_options { [type.googleapis.com / m.A]: { y: -1.5e3 } } >\n",
];

fn corpus() -> Vec<String> {
    let mut texts: Vec<String> = EXCERPTS.iter().map(ToString::to_string).collect();
    let mut folders: Vec<_> = common::shared("corpus").into_iter().collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "pbtxt")
            {
                texts.push(fs::read_to_string(path).expect("text"));
            }
        }
    }
    texts
}

/// `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        cases: config.cases.max(1500),
        failure_persistence: None,
        ..config
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read(&bytes);
    }

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        read(text.as_bytes());
    }

    #[test]
    fn any_pieces(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..60)) {
        read(pieces.concat().as_bytes());
    }
}

#[test]
fn damaged_files() {
    let texts = corpus();
    let damage = (
        0..texts.len(),
        prop::collection::vec(
            (any::<usize>(), 0..12_usize, prop::sample::select(PIECES)),
            1..6,
        ),
    );
    proptest!(config(), |((text, edits) in damage)| {
        let mut bytes = texts[text].clone().into_bytes();
        bytes.truncate(6000);
        for (at, length, piece) in edits {
            let at = at % (bytes.len() + 1);
            let end = (at + length).min(bytes.len());
            bytes.splice(at..end, piece.bytes());
        }
        read(&bytes);
    });
}

/// More than property tests get through: short texts, of which some are sound.
#[test]
fn a_hundred_thousand_short_texts() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    let mut text = String::new();
    let mut sound = 0;
    for _ in 0..100_000 {
        text.clear();
        for _ in 0..=next(8) {
            text.push_str(PIECES[next(PIECES.len())]);
        }
        let parsed = parse_graph(&mut SourceMap::new(), "garbage.pbtxt", text.as_str());
        assert!(
            parsed.graph.is_some() || !parsed.diagnostics.is_empty(),
            "{text:?}"
        );
        if let Ok(formatted) = fmt::format(&mut SourceMap::new(), "garbage.pbtxt", text.as_str()) {
            let again = fmt::format(&mut SourceMap::new(), "again.pbtxt", formatted.as_str());
            assert_eq!(again.as_ref(), Ok(&formatted), "{text:?}");
            sound += 1;
        }
    }
    assert!(sound > 1_000, "only {sound} texts without errors");
}

#[test]
fn deep_nesting_is_refused_and_said_once() {
    for open in ["{", "a{", "a<", "[", "a: [", "a { b: <"] {
        let diagnostics = read(open.repeat(100_000).as_bytes());
        assert_eq!(diagnostics.len(), 1, "{open}");
        assert_eq!(diagnostics[0].code, &syntax::TOO_DEEP, "{open}");
    }
}

/// A text that takes more than linear time would not end within the patience of whoever runs the
/// tests.
#[test]
fn long_garbage_takes_linear_time() {
    let pieces = [
        "}",
        "]",
        ">",
        "{}",
        "[]",
        "\"",
        "'",
        "\\",
        "/",
        "/*",
        "*/",
        "//",
        "/*/",
        "#",
        ":",
        ",",
        "-",
        "- ",
        "a ",
        "a:",
        "a:1 ",
        "[a",
        "[a]",
        "1e+",
        "\"\\\"",
        "\"\\x",
        "a:[1,",
        "a:\"",
        "=",
        "é",
        "\n",
        "\"\n",
        "a:[[],{]},",
        "a{a:[}]",
        "{[",
        "[a b]",
    ];
    for piece in pieces {
        check_length(piece, &piece.repeat(60_000 / piece.len()));
    }
}

fn check_length(what: &str, text: &str) {
    let diagnostics = read(text.as_bytes());
    let count = diagnostics.len();
    assert!(count <= MAX_LISTED + 1, "{what}: {count}");
}

/// Many things that are compared with one another.
#[test]
fn many_names_take_linear_time() {
    let shapes: [fn(usize) -> String; 8] = [
        |i| format!("x{i}: 1 "),
        |i| format!("input_stream: 'a{i}' "),
        |i| format!("input_stream: 'A:{i}:a' "),
        |i| format!("input_stream: 'A:{}:a' ", i % 100),
        |i| format!("[a.b{i}] {{}} "),
        |i| format!("graph_options {{ [a/b{i}] {{}} }} "),
        |i| format!("executor {{ name: 'a{i}' }} "),
        |i| format!("node {{ calculator: 'A' name: 'a{i}' }} "),
    ];
    for shape in shapes {
        let text: String = (0..10_000).map(shape).collect();
        check_length(&shape(0), &text);
        check_length(&shape(0), &format!("options {{ {text} }}"));
    }
}
