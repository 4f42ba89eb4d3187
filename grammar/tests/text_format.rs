//! The text format: what is accepted, and what it means.

use graphmill_grammar::ast::{File, Literal, NameKind, Number, Radix, Value, ValueKind};
use graphmill_grammar::{SourceMap, parse};

use crate::common;

/// Parses a text without errors.
fn tree(text: &str) -> (SourceMap, File) {
    let mut sources = SourceMap::new();
    let id = sources.add("text", text);
    let (file, diagnostics) = parse(&sources, id);
    assert!(
        diagnostics.is_empty(),
        "{}",
        common::shown(&sources, &diagnostics)
    );
    (sources, file)
}

/// The value of a field that is called `x`.
fn value(text: &str) -> Value {
    tree(&format!("x: {text}"))
        .1
        .root
        .fields
        .swap_remove(0)
        .value
}

fn bytes(text: &str) -> Vec<u8> {
    match value(text).value {
        ValueKind::String(string) => string.bytes,
        other => panic!("{text}: {other:?}"),
    }
}

/// The number of errors in a text.
fn errors(text: &str) -> usize {
    let mut sources = SourceMap::new();
    let id = sources.add("text", text);
    parse(&sources, id).1.len()
}

#[test]
fn every_separator_delimiter_and_colon_that_may_be_left_out() {
    let same = [
        "a: 1 b { c: 2 } d: [3, 4]",
        "a:1,b:{c:2,},d:[3,4],",
        "a: 1; b < c: 2; >; d: [3,4];",
        "a:\n1\nb\n:\n{\nc\n:\n2\n}\nd\n:\n[\n3\n,\n4\n]",
        "# first\na: 1 # one\nb # two\n{ # three\n c: 2 } d: [ # four\n 3, # five\n 4 ]# six",
        "\u{FEFF}a: 1\r\nb {\r\n\tc: 2\r\n}\r\nd: [3,\x0b4]\x0c",
    ];
    let shape = |text: &str| -> Vec<String> {
        let (_, file) = tree(text);
        let show = |value: &Value| match &value.value {
            ValueKind::Message(message) => format!("{{{}}}", message.fields.len()),
            ValueKind::List(values) => format!("[{}]", values.len()),
            ValueKind::Number(Number {
                literal: Literal::Integer { value, .. },
                ..
            }) => value.to_string(),
            other => panic!("{other:?}"),
        };
        file.root
            .fields
            .iter()
            .map(|field| format!("{}={}", field.name, show(&field.value)))
            .collect()
    };
    for text in same {
        assert_eq!(shape(text), ["a=1", "b={1}", "d=[2]"], "{text}");
    }
}

#[test]
fn what_the_format_refuses() {
    let refused = [
        ", a: 1",
        "a: 1,, b: 2",
        "a: 1 ;; b: 2",
        "a 1",
        "a: ",
        "a",
        ": 1",
        "a: [1,]",
        "a: [,1]",
        "a: [1 2]",
        "a: [[1]]",
        "a: \"x",
        "a: 'x\ny'",
        "a: \"\\q\"",
        "a: 1x",
        "a: 0x",
        "a: 08",
        "a: 1e",
        "a: 1.2.3",
        "a { b: 1 >",
        "a { b: 1",
        "a: 1 }",
        "[] { }",
        "[/a.B] { }",
        "[a b] { }",
        "[a..b] { }",
        "[x/] { }",
        "[%zz/a.B] { }",
        "a: @",
        "a = 1",
        "// x",
        "a: \"\\400\"",
        "a: \"\\ud800\"",
        "a: \"\\U00110000\"",
        "a: --1",
        "a: +1",
        "a: -",
        "a: -'x'",
        "a: -[1]",
        "a: .",
        "a: 00f",
        "a: 017.5",
        "a: 0x1.5",
        "a: 0xg",
        "a: 1_0",
        "a: 1.5ff",
        "a: 1.5e",
        "a: 1e+",
        "a: 1e5b: 2",
        "a: 1\0",
        "a: '\\x'",
        "a: '\\u12'",
        "a: '\\U0000'",
        "a: '\\'",
        "a: \"x\" \"y",
        "a: 'x' y",
        "a: [1; 2]",
        "a: [b: 1]",
        "a { b 1 }",
        "a: <}",
        "a { } ; ;",
        "1: 2",
        "a-b: 1",
        "a.b: 1",
        "[a.b]",
        "[a.b",
        "[a b.c] { }",
        "[a.b/] { }",
        "[//x/y] { }",
        "[%2/a.B] { }",
        "[a/1b] { }",
        "/* x */",
    ];
    for text in refused {
        assert!(errors(text) > 0, "{text}");
    }
}

#[test]
fn what_the_format_takes_though_it_looks_odd() {
    let taken = [
        "",
        "# only a comment",
        "a: 0f b: 00 c: 1.f d: 1e5F",
        "a: [] b: [ ] c: [ # none\n ]",
        "a [{}, <>] b: [{}]",
        "a{}b{}c<>",
        "a { b <> }; c {},",
        "_: _ _1: -_",
        "node: node inf: nan",
        "a: 'x'\"y\"'z'",
        "a: '\\?\\\"' b: \"it's\"",
        "a:1,b:2;c:3",
        "[a.b]: 1 [ c . d ] : < > [e/f.g] [{}]",
        "a\n#x\n:\n#y\n-\n#z\n1",
        "a: 99999999999999999999 b: 1e999",
    ];
    for text in taken {
        assert_eq!(errors(text), 0, "{text}");
    }
}

#[test]
fn strings_join_and_escapes_resolve() {
    assert_eq!(
        bytes(
            r#""a" 'b' # between
        "c""#
        ),
        b"abc"
    );
    assert_eq!(
        bytes(r#""\a\b\f\n\r\t\v\?\\\'\"""#),
        b"\x07\x08\x0c\n\r\t\x0b?\\'\""
    );
    assert_eq!(bytes(r#""\0\12\1234\x4\x41\X42G""#), b"\x00\x0aS4\x04ABG");
    assert_eq!(
        bytes(r#""\u00e9\U0001F600\ud83d\ude00""#),
        "é😀😀".as_bytes()
    );
    assert_eq!(bytes(r#""it's" 'a "quote"'"#), b"it'sa \"quote\"");
    assert_eq!(bytes("\"é😀 # no comment\""), "é😀 # no comment".as_bytes());
    assert_eq!(bytes(r#""\377""#), [0xff]);
}

#[test]
fn bytes_of_a_string_know_where_they_are_written() {
    let (sources, file) = tree(r#"x: "ab" 'c\x64\u00e9f' "g""#);
    let ValueKind::String(string) = &file.root.fields[0].value.value else {
        panic!("a string")
    };
    assert_eq!(string.as_str(), Some("abcdéfg"));
    let written = |range| sources.slice(string.span_of(range));
    assert_eq!(written(0..2), "ab");
    assert_eq!(written(3..4), r"\x64");
    assert_eq!(written(4..6), r"\u00e9");
    assert_eq!(written(2..3), "c");
    assert_eq!(written(7..8), "g");
    assert_eq!(written(1..3), "b\" 'c");
}

#[test]
fn numbers() {
    let number = |text: &str| match value(text).value {
        ValueKind::Number(number) => number,
        other => panic!("{text}: {other:?}"),
    };
    let integer = |negative, radix, value| Number {
        negative,
        literal: Literal::Integer { radix, value },
    };
    assert_eq!(number("0"), integer(false, Radix::Decimal, 0));
    assert_eq!(number("- 5"), integer(true, Radix::Decimal, 5));
    assert_eq!(number("-# minus\n5"), integer(true, Radix::Decimal, 5));
    assert_eq!(number("017"), integer(false, Radix::Octal, 15));
    assert_eq!(number("00"), integer(false, Radix::Octal, 0));
    assert_eq!(number("0xFfe1"), integer(false, Radix::Hexadecimal, 0xffe1));
    assert_eq!(
        number("18446744073709551615"),
        integer(false, Radix::Decimal, u64::MAX)
    );
    assert_eq!(
        number("18446744073709551616").literal,
        Literal::HugeInteger(18_446_744_073_709_551_616.0)
    );
    for (text, float) in [
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1e3),
        ("1.5E-3f", 1.5e-3),
        ("10f", 10.0),
        ("0.5F", 0.5),
        ("70.", 70.0),
    ] {
        assert_eq!(number(text).literal, Literal::Float(float), "{text}");
    }
}

#[test]
fn words_and_the_names_after_them() {
    let (_, file) = tree("a: FAST b: -inf c: true [x.y] { } d: on e { } f: off g < >");
    let names: Vec<_> = file
        .root
        .fields
        .iter()
        .map(|field| field.name.to_string())
        .collect();
    assert_eq!(names, ["a", "b", "c", "[x.y]", "d", "e", "f", "g"]);
    assert_eq!(
        file.root.fields[1].value.value,
        ValueKind::Identifier {
            negative: true,
            name: "inf".into()
        }
    );
}

#[test]
fn names_in_brackets() {
    let name = |text: &str| {
        tree(&format!("{text} {{ }}"))
            .1
            .root
            .fields
            .swap_remove(0)
            .name
    };
    let any = |prefix: &str, type_name: &str| NameKind::Any {
        prefix: prefix.into(),
        type_name: type_name.into(),
    };
    assert_eq!(
        name("[mediapipe.X.ext]").kind,
        NameKind::Extension("mediapipe.X.ext".into())
    );
    assert_eq!(
        name("[ mediapipe . X\n. ext ]:").kind,
        NameKind::Extension("mediapipe.X.ext".into())
    );
    assert_eq!(
        name("[type.googleapis.com/m.X]").kind,
        any("type.googleapis.com", "m.X")
    );
    assert_eq!(
        name("[type.googleapis.com / # x\n m.X]:").kind,
        any("type.googleapis.com", "m.X")
    );
    assert_eq!(name("[a-b.c/d%20e/m.X]").kind, any("a-b.c/d%20e", "m.X"));
}

#[test]
fn comments_are_kept_in_order_and_without_line_ends() {
    let (sources, file) = tree("# one\r\na: \"# no\" # two\nb { # three\n} #");
    let comments: Vec<_> = file
        .comments
        .iter()
        .map(|&comment| sources.slice(comment))
        .collect();
    assert_eq!(comments, ["# one", "# two", "# three", "#"]);
}

#[test]
fn delimiters_separators_and_spans_are_kept() {
    let (sources, file) = tree("a { b: [1, 2]; } , c < >");
    let a = &file.root.fields[0];
    let ValueKind::Message(message) = &a.value.value else {
        panic!("a message")
    };
    let (open, close) = message.delimiters.expect("written");
    assert_eq!((sources.slice(open), sources.slice(close)), ("{", "}"));
    assert_eq!(sources.slice(a.span), "a { b: [1, 2]; }");
    assert_eq!(sources.slice(a.separator.expect("written")), ",");
    assert_eq!(sources.slice(message.fields[0].span), "b: [1, 2]");
    assert_eq!(
        sources.slice(message.fields[0].separator.expect("written")),
        ";"
    );
    assert_eq!(
        sources.locate(file.root.fields[1].span).as_deref(),
        Some("text:1:20")
    );
}

#[test]
fn a_hundred_levels_are_read_and_one_more_is_not() {
    let nested = |depth: usize| format!("{}{}", "a{".repeat(depth), "}".repeat(depth));
    assert_eq!(errors(&nested(100)), 0);
    assert_eq!(errors(&nested(101)), 1);
}

#[test]
fn what_is_sound_around_an_error_is_kept() {
    let mut sources = SourceMap::new();
    let id = sources.add("text", "a: 1 @@ junk\nb { c: 2 ] d: 'x }\ne: 3");
    let (file, diagnostics) = parse(&sources, id);
    assert!(!diagnostics.is_empty());
    let names: Vec<_> = file
        .root
        .fields
        .iter()
        .map(|field| field.name.to_string())
        .collect();
    assert!(
        names.contains(&"a".into()) && names.contains(&"b".into()),
        "{names:?}"
    );
    assert!(file.root.incomplete);
}
