//! The formatter: how files look, and that nothing of them is lost.

use std::fs;
use std::path::{Path, PathBuf};

use graphmill_grammar::ast::{Field, File, Message, NameKind, Value, ValueKind};
use graphmill_grammar::{GraphConfig, SourceMap, Span, fmt, parse, parse_graph};
use proptest::prelude::*;

use crate::common;

/// Formats a text without errors.
fn formatted(text: &str) -> String {
    let mut sources = SourceMap::new();
    fmt::format(&mut sources, "text", text)
        .unwrap_or_else(|errors| panic!("{text}\n{}", common::shown(&sources, &errors)))
}

fn tree(text: &str) -> (SourceMap, File) {
    let mut sources = SourceMap::new();
    let id = sources.add("text", text);
    let (file, diagnostics) = parse(&sources, id);
    assert_eq!(diagnostics, [], "{text}");
    (sources, file)
}

/// The tree without places, delimiters and separators: what the text means.
fn meaning(message: &Message) -> Message {
    Message {
        fields: message.fields.iter().map(field_meaning).collect(),
        ..Message::empty()
    }
}

fn field_meaning(field: &Field) -> Field {
    let mut field = field.clone();
    (field.span, field.name.span) = (Span::NONE, Span::NONE);
    (field.colon, field.separator) = (None, None);
    field.value = value_meaning(&field.value);
    field
}

fn value_meaning(value: &Value) -> Value {
    let kind = match &value.value {
        ValueKind::Message(message) => ValueKind::Message(meaning(message)),
        ValueKind::List(values) => ValueKind::List(values.iter().map(value_meaning).collect()),
        ValueKind::String(string) => {
            let mut string = string.clone();
            string.pieces.clear();
            ValueKind::String(string)
        }
        other => other.clone(),
    };
    Value::from(kind)
}

fn comments(sources: &SourceMap, file: &File) -> Vec<String> {
    let text = |&comment: &Span| sources.slice(comment).trim_end().to_owned();
    file.comments.iter().map(text).collect()
}

/// Formats the text and checks all that must hold of any text.
fn check(text: &str) -> String {
    let result = formatted(text);
    let (sources, before) = tree(text);
    let (new_sources, after) = tree(&result);
    assert_eq!(meaning(&before.root), meaning(&after.root), "{text}");
    assert_eq!(
        comments(&sources, &before),
        comments(&new_sources, &after),
        "{text}"
    );
    assert_eq!(formatted(&result), result, "{text}");
    let by_value = fmt::print(&before.root);
    let (_, reread) = tree(&by_value);
    assert_eq!(meaning(&before.root), meaning(&reread.root), "{text}");
    assert!(
        result.lines().all(|line| line.trim_end() == line),
        "{result}"
    );
    result
}

#[track_caller]
fn becomes(text: &str, expected: &str) {
    assert_eq!(check(text), expected, "{text}");
}

#[test]
fn fields_stand_on_lines_of_their_own() {
    becomes("", "");
    becomes("\u{FEFF}\n\n", "");
    becomes("a:1 b : 2, c {d:3;};", "a: 1\nb: 2\nc { d: 3 }\n");
    becomes("a:\n1\r\nb\n<\nc:\n2\n>\n", "a: 1\nb {\n  c: 2\n}\n");
    becomes(
        "a {\n b { c: 1\n } d: [ ] e { } f < \n >\n}",
        "a {\n  b {\n    c: 1\n  }\n  d: []\n  e {}\n  f {}\n}\n",
    );
}

#[test]
fn blank_lines_are_kept_one_at_most() {
    becomes("\n\na: 1\n\n\n\nb: 2\nc: 3\n\n", "a: 1\n\nb: 2\nc: 3\n");
    becomes(
        "a {\n\n  b: 1\n\n\n  c: 2\n\n}\n\n# x\n\n\nd: 1",
        "a {\n  b: 1\n\n  c: 2\n}\n\n# x\n\nd: 1\n",
    );
}

#[test]
fn comments_stay_where_they_speak() {
    becomes(
        "# one\n\n#two   \na: 1 # three\n  # four\nb: 2",
        "# one\n\n#two\na: 1  # three\n# four\nb: 2\n",
    );
    becomes(
        "a { # one\n# two\nb: 1 # three\n# four\n} # five\n# six",
        "a {  # one\n  # two\n  b: 1  # three\n  # four\n}  # five\n# six\n",
    );
    becomes(
        "a: [ # one\n1 # two\n, # three\n# four\n2, 3 # five\n] # six",
        "a: [  # one\n  1,  # two\n  # three\n  # four\n  2,\n  3  # five\n]  # six\n",
    );
    becomes(
        "a # one\n: # two\n# three\n- # four\n1 # five\n, # six\nb: 1",
        "# one\n# two\n# three\n# four\na: -1  # five\n# six\nb: 1\n",
    );
    becomes(
        "a: 1\n\n[x # one\n.y] # two\n{ }",
        "a: 1\n\n# one\n# two\n[x.y] {}\n",
    );
    becomes(
        "a: 1, # one\nb {\n# two\n}\nc: [\n# three\n]",
        "a: 1  # one\nb {\n  # two\n}\nc: [\n  # three\n]\n",
    );
}

#[test]
fn what_stands_on_one_line_may_stay_there() {
    becomes(
        "a:{b:1,c:[1,2]d<e:'x'>}",
        "a { b: 1 c: [1, 2] d { e: \"x\" } }\n",
    );
    becomes("a: [1,\n2]", "a: [\n  1,\n  2\n]\n");
    becomes(
        "a: [{b: 1}, {\nb: 2}]",
        "a: [\n  { b: 1 },\n  {\n    b: 2\n  }\n]\n",
    );
    let long = "x".repeat(40);
    becomes(
        &format!("a {{ b {{ {long}: 1 }} c {{ {long}: 2 }} }}"),
        &format!("a {{\n  b {{ {long}: 1 }}\n  c {{ {long}: 2 }}\n}}\n"),
    );
    becomes(
        &format!("a: [\"{long}\", \"{long}\"]"),
        &format!("a: [\n  \"{long}\",\n  \"{long}\"\n]\n"),
    );
    let widest = format!("a {{ b: \"{}\" }}", "é".repeat(80 - 11));
    becomes(&widest, &format!("{widest}\n"));
    becomes(
        &widest.replace("b: ", "bb: "),
        &format!("a {{\n  bb: \"{}\"\n}}\n", "é".repeat(80 - 11)),
    );
}

#[test]
fn strings_keep_their_escapes_and_pieces() {
    becomes(
        r#"a: 'x\'\x41' b: 'say "no"' c: "\101" "d" 'e'"#,
        "a: \"x\\'\\x41\"\nb: 'say \"no\"'\nc: \"\\101\" \"d\" \"e\"\n",
    );
    becomes(
        "a: 'b' # one\n# two\n'c'\n\n'd' # three",
        "a:\n  \"b\"  # one\n  # two\n  \"c\"\n\n  \"d\"  # three\n",
    );
    becomes(
        "a: ['b'\n'c', 'd']",
        "a: [\n  \"b\"\n  \"c\",\n  \"d\"\n]\n",
    );
}

#[test]
fn numbers_keep_their_spelling_and_names_lose_their_spaces() {
    becomes(
        "a: 0X1F b: 017 c: -1.50e+3F d: - .5 e: - inf f: True",
        "a: 0X1F\nb: 017\nc: -1.50e+3F\nd: -.5\ne: -inf\nf: True\n",
    );
    becomes(
        "[type.googleapis.com / m . X]: { } [ a.b ]: 1",
        "[type.googleapis.com/m.X] {}\n[a.b]: 1\n",
    );
}

#[test]
fn a_file_with_errors_is_left_alone() {
    let refused = |text: &[u8]| fmt::format(&mut SourceMap::new(), "text", text).is_err();
    for text in ["a", "a: 1 }", "a { b: 1", "a: @", "a: [1,]", "// x"] {
        assert!(refused(text.as_bytes()), "{text}");
    }
    assert!(refused(b"a: \"\xff\""));
    assert!(refused("a{".repeat(200).as_bytes()));
}

#[test]
fn values_that_a_program_made_are_written_by_what_they_are() {
    let (_, file) = tree(
        r#"node{calculator:"A"}num_threads:-017 x:0x1f y:1.f z:-18446744073709551616 w:1e400 s:"a\n\"\\\x01" "\377é" node{options{[a.b]:{c:[1,2]d:[{}]}}}"#,
    );
    assert_eq!(
        fmt::print(&file.root),
        r#"node {
  calculator: "A"
}

num_threads: -017
x: 0x1f
y: 1.0
z: -18446744073709551616
w: 1e999
s: "a\n\"\\\001\377é"

node {
  options {
    [a.b] {
      c: [1, 2]
      d: [
        {}
      ]
    }
  }
}
"#
    );
    let fields = vec![
        Field::new(NameKind::Plain("a".into()), ValueKind::word("inf")),
        Field::new(NameKind::Plain("b".into()), ValueKind::integer(-1)),
        Field::new(NameKind::Extension("c.d".into()), ValueKind::text("e")),
    ];
    let message = Message {
        fields,
        ..Message::empty()
    };
    assert_eq!(fmt::print(&message), "a: inf\nb: -1\n[c.d]: \"e\"\n");
}

#[test]
fn a_graph_displays_itself_as_a_file() {
    let text = r#"node {
  calculator: "A"
  input_stream: "x"
  input_stream: "T:y"
  input_stream: "T:1:z"
  options {
    merge_fields: true
    [a.B.ext] {
      c: 0x1f
    }
  }
  node_options {
    [type.googleapis.com/a.C] {}
  }
  input_stream_info {
    tag_index: "T:1"
    back_edge: true
  }
  max_in_flight: -3
  option_value: "a:b/c"
}

num_threads: 2
"#;
    let parsed = parse_graph(&mut SourceMap::new(), "graph", text);
    assert_eq!(parsed.graph.expect("a graph").to_string(), text);
}

/// What a graph holds, without the places: spans show as `file@start..end`.
fn content(graph: &GraphConfig) -> String {
    let shown = format!("{graph:?}");
    let mut content = String::new();
    let mut rest = shown.as_str();
    while let Some((before, after)) = rest.split_once('@') {
        content.push_str(before.trim_end_matches(|c: char| c.is_ascii_digit()));
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    }
    content + rest
}

/// The graph without options, whose bodies are trees with the delimiters and spelling of their
/// file.
fn without_options(mut graph: GraphConfig) -> GraphConfig {
    (graph.options, graph.graph_options) = (None, Vec::new());
    for node in &mut graph.node {
        (node.options, node.node_options, node.input_stream_handler) = (None, Vec::new(), None);
    }
    graph
}

#[test]
fn every_graph_of_the_corpus_is_the_same_from_its_own_text() {
    let files = common::shared("corpus")
        .map(files_below)
        .unwrap_or_default();
    for path in files {
        let text = fs::read_to_string(&path).expect("text");
        let read = |text: &str| parse_graph(&mut SourceMap::new(), "graph", text).into_result();
        let Ok((graph, _)) = read(&text) else {
            continue;
        };
        let printed = graph.to_string();
        let (again, _) = read(&printed).unwrap_or_else(|errors| panic!("{printed}\n{errors:?}"));
        assert_eq!(again.to_string(), printed);
        let (graph, again) = (without_options(graph), without_options(again));
        assert_eq!(content(&graph), content(&again), "{}", path.display());
    }
}

/// Every graph file below a folder.
fn files_below(folder: PathBuf) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![folder], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "pbtxt")
            {
                files.push(path);
            }
        }
    }
    files
}

#[test]
fn every_file_of_the_corpus_keeps_its_meaning_and_comments() {
    let files = common::shared("corpus")
        .map(files_below)
        .unwrap_or_default();
    for path in files {
        check(&fs::read_to_string(&path).expect("text"));
    }
}

#[test]
fn shipped_graphs_are_formatted() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files =
        ["graphs", "demos", "calculators/src"].map(|folder| files_below(project.join(folder)));
    assert!(files.iter().all(|files| !files.is_empty()));
    // `ovms_llm` is spelled as the graphs are that it stands for.
    let ours = |path: &PathBuf| !path.ends_with("ovms_llm/graph.pbtxt");
    for path in files.into_iter().flatten().filter(ours) {
        let text = fs::read_to_string(&path).expect("text");
        assert_eq!(check(&text), text, "{}", path.display());
    }
}

/// What may stand between two parts.
fn gap() -> impl Strategy<Value = &'static str> {
    prop::sample::select(
        &[
            " ",
            "\n",
            "\n\n\n",
            "\t",
            "\r\n  ",
            " # c\n",
            "\n#d \r\n\n # e\n",
        ][..],
    )
}

/// Anything valid: each of its parts is preceded by a gap.
fn field() -> impl Strategy<Value = String> {
    let spellings = &[
        "a",
        "node",
        "input_stream",
        "[x.y]",
        "[ x\n. y ]",
        "[t.g.c / # z\n m.X]",
    ];
    let scalars = &[
        "1",
        "-2",
        "-\n3",
        "- # m\n.5",
        "0X1f",
        "017",
        "1.5E+3F",
        "word",
        "- inf",
        "\"\"",
        "'b'",
        "'\"'",
        "\"a\" 'b'",
        "'\\x41\\u00e9' \n\"y\" # z\n 'w'",
        "\"a long string that does not fit on a line with another one\"",
    ];
    let named = |value: BoxedStrategy<String>| {
        let separators = prop::sample::select(&["", ",", ";", " # s\n,"][..]);
        let parts = (
            gap(),
            prop::sample::select(&spellings[..]),
            gap(),
            value,
            gap(),
            separators,
        );
        parts.prop_map(|(before, name, colon, value, after, separator)| {
            format!("{before}{name}{colon}{value}{after}{separator}")
        })
    };
    let delimited = |open: &'static str,
                     values: BoxedStrategy<Vec<String>>,
                     comma: &'static str,
                     close: &'static str| {
        let parts = (gap(), values, gap());
        parts.prop_map(move |(before, values, after)| {
            format!("{before}{open}{}{after}{close}", values.join(comma))
        })
    };
    let scalar = (gap(), prop::sample::select(&scalars[..]))
        .prop_map(|(gap, text)| format!("{gap}{text}"))
        .boxed();
    let colon = |value: &str| format!(":{value}");
    let leaf = named(scalar.clone().prop_map(move |value| colon(&value)).boxed());
    leaf.prop_recursive(4, 40, 5, move |field| {
        let fields = prop::collection::vec(field, 0..5).boxed();
        let scalars = prop::collection::vec(scalar.clone(), 0..4).boxed();
        let message = prop_oneof![
            delimited("{", fields.clone(), "", "}"),
            delimited("<", fields, "", ">"),
        ]
        .boxed();
        let messages = prop::collection::vec(message.clone(), 0..3).boxed();
        named(
            prop_oneof![
                message.clone(),
                message.prop_map(move |value| colon(&value)),
                delimited("[", scalars, "\n,", "]").prop_map(move |value| colon(&value)),
                delimited("[", messages, ",", "]"),
            ]
            .boxed(),
        )
    })
}

/// `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        cases: config.cases.max(1000),
        failure_persistence: None,
        ..config
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_file_keeps_its_meaning_and_comments(fields in prop::collection::vec(field(), 0..6)) {
        check(&fields.concat());
    }
}
