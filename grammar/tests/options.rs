//! Options as Rust types: every kind of value, with protobuf's rules.

use std::collections::{BTreeMap, HashMap};

use graphmill_grammar::{Diagnostic, SourceMap, from_message, parse};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::common;

fn read<T: DeserializeOwned>(text: &str) -> Result<T, Vec<Diagnostic>> {
    let mut sources = SourceMap::new();
    let file = sources.add("options", text);
    let (tree, diagnostics) = parse(&sources, file);
    assert!(
        diagnostics.is_empty(),
        "{}",
        common::shown(&sources, &diagnostics)
    );
    from_message(&tree.root, "Options", tree.root.head())
}

fn messages<T: DeserializeOwned>(text: &str) -> Vec<String> {
    let diagnostics = read::<T>(text).err().expect("something is wrong");
    diagnostics
        .into_iter()
        .map(|diagnostic| diagnostic.message)
        .collect()
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Options {
    text: String,
    bytes: Bytes,
    small: i8,
    large: u64,
    real: f64,
    single: f32,
    flag: bool,
    maybe: Option<i32>,
    list: Vec<i64>,
    mode: Mode,
    modes: Vec<Mode>,
    inner: Inner,
    inners: Vec<Inner>,
    boxed: Option<Box<Inner>>,
    pair: (i32, i32),
    map: HashMap<String, i32>,
    by_number: BTreeMap<u32, String>,
    #[serde(rename = "type", alias = "kind")]
    renamed: String,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Size {
    width: u32,
    height: u32,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Looks {
    red: u8,
    names: Vec<String>,
}

#[test]
fn one_message_is_read_as_several_structs_and_each_mistake_has_its_place() {
    let text = r#"width: 3 names: "a" red: 4 names: "b""#;
    let (size, looks): (Size, Looks) = read(text).expect("sound");
    assert_eq!((size.width, size.height), (3, 0));
    assert_eq!(
        (looks.red, looks.names.as_slice()),
        (4, &["a".to_owned(), "b".to_owned()][..])
    );

    let text = r#"heigth: 1 red: 256 width: "x" neams: "c""#;
    let wrong = read::<(Size, Looks)>(text).expect_err("each field is wrong");
    let places = wrong.iter().map(|diagnostic| {
        let span = diagnostic.primary.span;
        &text[span.start as usize..span.end as usize]
    });
    assert_eq!(
        places.collect::<Vec<_>>(),
        ["heigth", "256", r#""x""#, "neams"]
    );
    assert_eq!(
        messages::<(Size, Looks)>("blue: 1"),
        ["`Options` has no field `blue`"]
    );
}

#[derive(Debug, Default, PartialEq)]
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Bytes;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Visitor)
    }
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Inner {
    name: String,
    inner: Option<Box<Inner>>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Mode {
    #[default]
    Normal,
    LowPower,
    High,
}

#[test]
fn scalars_follow_the_text_format() {
    let options: Options = read(
        r#"text: "a" 'b' bytes: "\377" small: -0x80 large: 18446744073709551615 real: -inf single: 1e99 flag: t maybe: 017 type: "x""#,
    )
    .expect("sound");
    assert_eq!(options.text, "ab");
    assert_eq!(options.bytes, Bytes(vec![0xff]));
    assert_eq!((options.small, options.large), (-128, u64::MAX));
    assert_eq!(
        (options.real, options.single),
        (f64::NEG_INFINITY, f32::INFINITY)
    );
    assert_eq!((options.flag, options.maybe), (true, Some(15)));
    assert_eq!(options.renamed, "x");
    assert_eq!(read::<Options>("kind: 'y'").expect("sound").renamed, "y");
    for (text, flag) in [
        ("True", true),
        ("1", true),
        ("0x1", true),
        ("f", false),
        ("00", false),
        ("false", false),
    ] {
        assert_eq!(
            read::<Options>(&format!("flag: {text}"))
                .expect("sound")
                .flag,
            flag,
            "{text}"
        );
    }
    for (text, real) in [
        ("1", 1.0),
        ("-1.5f", -1.5),
        ("99999999999999999999", 1e20),
        ("Infinity", f64::INFINITY),
    ] {
        let options: Options = read(&format!("real: {text}")).expect("sound");
        assert_eq!(options.real.to_bits(), f64::to_bits(real), "{text}");
    }
    assert!(read::<Options>("real: NaN").expect("sound").real.is_nan());
}

#[test]
fn values_of_the_wrong_kind_are_refused() {
    let refused = [
        "text: 1",
        "text: word",
        "text: '\\xff'",
        "small: 128",
        "small: 1.0",
        "small: '1'",
        "large: -1",
        "large: -0",
        "large: 18446744073709551616",
        "real: 0x10",
        "real: 010",
        "real: '1'",
        "flag: TRUE",
        "flag: 2",
        "flag: -1",
        "flag: 'true'",
        "maybe: []",
        "list: 1.5",
        "mode: FASTEST",
        "mode: 3",
        "mode: -1",
        "mode: 'HIGH'",
        "inner: 1",
        "inner { name: 1 }",
        "inners: [{ }, 1]",
        "pair: [1]",
        "text: 'a' text: 'b'",
        "inner { } inner { }",
        "map: 1",
        "map { key: 'a' }",
        "map { value: 1 }",
        "map { key: 'a' value: 1 } map { key: 'b' }",
        "map { key: 'a' value: 'b' }",
        "map { key: 'a' value: 1 value: 2 }",
        "map { key: 'a' value: 1 } map { b: 2 }",
        "by_number { key: 'a' value: 'b' }",
    ];
    for text in refused {
        assert_eq!(
            messages::<Options>(text).len(),
            1,
            "{text}: {:?}",
            messages::<Options>(text)
        );
    }
}

#[test]
fn repeated_fields_gather() {
    let options: Options = read("list: 1 list: [2, 3] list: [] list: 4 modes: [HIGH, 1] inners { name: 'a' } inners: [{ }, < name: 'b' >] pair: [1, 2]")
        .expect("sound");
    assert_eq!(options.list, [1, 2, 3, 4]);
    assert_eq!(options.modes, [Mode::High, Mode::LowPower]);
    let names: Vec<_> = options
        .inners
        .iter()
        .map(|inner| inner.name.as_str())
        .collect();
    assert_eq!(names, ["a", "", "b"]);
    assert_eq!(options.pair, (1, 2));
}

#[test]
fn messages_nest_and_maps_are_entries_or_fields() {
    let options: Options = read(
        "inner { inner { name: 'deep' } } boxed { } map { key: 'a' value: 1 } map { key: 'b' value: 2 } map { key: 'a' value: 3 } \
         by_number: [{ key: 7, value: 'x' }] mode: LOW_POWER",
    )
    .expect("sound");
    assert_eq!(options.inner.inner.expect("given").name, "deep");
    assert_eq!(options.boxed, Some(Box::default()));
    assert_eq!(
        options.map,
        HashMap::from([("a".into(), 3), ("b".into(), 2)])
    );
    assert_eq!(options.by_number, BTreeMap::from([(7, "x".into())]));
    assert_eq!(options.mode, Mode::LowPower);
    assert_eq!(
        read::<Options>("map { a: 1 b: 2 }")
            .expect("sound")
            .map
            .len(),
        2
    );
}

#[test]
fn a_body_can_be_read_without_knowing_its_type() {
    let value: serde_json::Value =
        read("a: 1 a: -2 b { c: 'x' d: [1.5, true] } e: WORD [m.X.ext] { } f: []").expect("sound");
    assert_eq!(
        value,
        json!({"a": [1, -2], "b": {"c": "x", "d": [1.5, true]}, "e": "WORD", "[m.X.ext]": {}, "f": []})
    );
}

#[test]
fn one_of_several_is_an_enum_that_carries_something() {
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Source {
        Path(String),
        Size { width: u32 },
        None,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Choice {
        source: Source,
    }
    let source = |text: &str| read::<Choice>(text).map(|choice| choice.source);
    assert_eq!(source("source { path: 'x' }"), Ok(Source::Path("x".into())));
    assert_eq!(
        source("source { size { width: 3 } }"),
        Ok(Source::Size { width: 3 })
    );
    assert_eq!(source("source: none"), Ok(Source::None));
    assert_eq!(
        messages::<Choice>("source { size { height: 3 } }"),
        ["`size` needs a `width`", "`size` has no field `height`"]
    );
    assert_eq!(messages::<Choice>("source: path").len(), 1);
    assert_eq!(messages::<Choice>("source { }").len(), 1);
    assert_eq!(
        messages::<Choice>("source { path: 'x' size { width: 3 } }"),
        ["`size` and `path` cannot be given together"]
    );
    assert_eq!(messages::<Choice>(""), ["`Options` needs a `source`"]);
}

#[test]
fn options_that_have_no_fields() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Empty {}
    #[derive(Debug, PartialEq, Deserialize)]
    struct Unit;
    assert_eq!(read::<Empty>(""), Ok(Empty {}));
    assert_eq!(read::<Unit>(""), Ok(Unit));
    assert_eq!(read::<()>(""), Ok(()));
    for found in [
        messages::<Empty>("a: 1 b: 2"),
        messages::<Unit>("a: 1 b: 2"),
        messages::<()>("a: 1 b: 2"),
    ] {
        assert_eq!(
            found,
            ["`Options` has no field `a`", "`Options` has no field `b`"]
        );
    }
}

#[test]
fn a_type_with_rules_of_its_own_is_reported_at_its_value() {
    #[derive(Debug, Deserialize)]
    #[serde(try_from = "f64")]
    struct Probability(#[allow(dead_code, reason = "only its rule matters")] f64);
    impl TryFrom<f64> for Probability {
        type Error = String;
        fn try_from(value: f64) -> Result<Self, String> {
            if (0.0..=1.0).contains(&value) {
                Ok(Self(value))
            } else {
                Err("expected 0 to 1".into())
            }
        }
    }
    #[derive(Debug, Deserialize)]
    struct Sampling {
        #[allow(dead_code, reason = "only its rule matters")]
        top_p: Probability,
    }
    let diagnostics = read::<Sampling>("top_p: 1.5").expect_err("out of range");
    assert_eq!(
        diagnostics[0].message,
        "invalid value for `top_p`: expected 0 to 1"
    );
    assert_eq!(diagnostics[0].primary.span.range(), 7..10);
}

#[test]
fn every_mistake_of_a_body_is_reported_once() {
    let found = messages::<Options>(
        "txt: 1 small: 1000 real: 'x' inner { nam: 'a' inner { name: 3 } } inners { name: 1 } inners { name: 2 } zzzzz { }",
    );
    assert_eq!(
        found,
        [
            "`Options` has no field `txt`",
            "the number for `small` is out of range",
            "`real` takes a number, not a string",
            "`inner` has no field `nam`",
            "`name` takes a string, not an integer",
            "`name` takes a string, not an integer",
            "`name` takes a string, not an integer",
            "`Options` has no field `zzzzz`",
        ]
    );
}
