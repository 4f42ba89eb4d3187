//! Ports: the strings that name streams and side packets, and the rules for a node's set of them.

use graphmill_grammar::codes::{Code, ports};
use graphmill_grammar::graph::TagIndex;
use graphmill_grammar::{PortSpec, Span};

use crate::common;

/// The canonical spellings of a node's inputs, or the codes of what is wrong with them.
fn inputs(strings: &[&str]) -> Result<Vec<(String, u32, String)>, Vec<&'static Code>> {
    let inputs: Vec<_> = strings
        .iter()
        .map(|string| format!("input_stream: {string:?}"))
        .collect();
    let (_, parsed) = common::parsed(&format!(
        "node {{ calculator: \"A\" {} }}",
        inputs.join(" ")
    ));
    if !parsed.diagnostics.is_empty() {
        return Err(parsed
            .diagnostics
            .iter()
            .map(|diagnostic| diagnostic.code)
            .collect());
    }
    let mut graph = parsed.graph.expect("no error");
    let ports = graph.node.swap_remove(0).input_stream;
    Ok(ports
        .into_iter()
        .map(|port| (port.tag.value, port.index, port.name.value))
        .collect())
}

fn port(tag: &str, index: u32, name: &str) -> (String, u32, String) {
    (tag.into(), index, name.into())
}

#[test]
fn valid_sets_of_ports() {
    assert_eq!(
        inputs(&["BLAH:blah1", "BLAH:1:blah2"]),
        Ok(vec![port("BLAH", 0, "blah1"), port("BLAH", 1, "blah2")])
    );
    assert_eq!(
        inputs(&["a", "a"]),
        Ok(vec![port("", 0, "a"), port("", 1, "a")])
    );
    assert_eq!(
        inputs(&["A:a", "B:a"]),
        Ok(vec![port("A", 0, "a"), port("B", 0, "a")])
    );
    assert_eq!(
        inputs(&["BLAH:2:c", "BLAH:0:a", "BLAH:1:b"]),
        Ok(vec![
            port("BLAH", 2, "c"),
            port("BLAH", 0, "a"),
            port("BLAH", 1, "b")
        ])
    );
    assert_eq!(
        inputs(&["a", "A:b", "c"]),
        Ok(vec![port("", 0, "a"), port("A", 0, "b"), port("", 1, "c")])
    );
}

#[test]
fn invalid_sets_of_ports() {
    assert_eq!(
        inputs(&["BLAH:b1", "BLAH:b2"]),
        Err(vec![&ports::DUPLICATE_PORT])
    );
    assert_eq!(
        inputs(&["BLAH:b1", "BLAH:0:b2"]),
        Err(vec![&ports::DUPLICATE_PORT])
    );
    assert_eq!(
        inputs(&["BLAH:1:a", "BLAH:2:b"]),
        Err(vec![&ports::MISSING_INDEX])
    );
    assert_eq!(inputs(&["0:b1"]), Err(vec![&ports::BAD_TAG]));
    assert_eq!(
        inputs(&["A:a", "A:b", "B:1:c", "c:d"]),
        Err(vec![
            &ports::DUPLICATE_PORT,
            &ports::MISSING_INDEX,
            &ports::BAD_TAG
        ])
    );
}

#[test]
fn single_ports() {
    let valid = [
        "a",
        "_1",
        "b1",
        "humphrey_bogart_1899",
        "A:a",
        "A:3:a",
        "A1:10000:x",
        "_1:x",
        "MALE_ACTOR:x",
    ];
    for text in valid {
        let port = PortSpec::parse(text)
            .unwrap_or_else(|diagnostic| panic!("{text}: {}", diagnostic.message));
        assert_eq!(port.to_string(), text);
    }
    assert_eq!(PortSpec::parse("A:0:a").expect("valid").to_string(), "A:a");
    let invalid = [
        "",
        "a b",
        "aB",
        "a-b",
        "a/b",
        "a.b",
        "1st",
        "0",
        "a\0",
        "a\t",
        " a",
        "a ",
        ":a",
        "actor:a",
        "ACTOR:A",
        "A:B:c",
        "A:10001:a",
        "A:01:a",
        "A:00:a",
        "A:-0:a",
        ":0:a",
        "A::a",
        "A:1:",
        "A:1:a:",
        "A:",
        ":",
        "M A:a",
        "A-B:a",
        "7_ELEVEN:a",
        "A: a",
        "é",
        "A:99999999999999999999:a",
    ];
    for text in invalid {
        assert!(PortSpec::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn references_to_ports() {
    let parsed = |text: &str| {
        TagIndex::parse(text, Span::NONE)
            .ok()
            .map(|found| (found.tag, found.index))
    };
    for (text, tag, index) in [
        ("", "", 0),
        ("A", "A", 0),
        (":3", "", 3),
        ("A:2", "A", 2),
        ("LOOPBACK:0", "LOOPBACK", 0),
    ] {
        assert_eq!(parsed(text), Some((tag.into(), index)), "{text}");
    }
    for text in ["a", "A:", ":", "A:a", "A:01", "A:1:2", " A", "A:10001"] {
        assert_eq!(parsed(text), None, "{text}");
    }
}
