//! The node masks addresses wherever the stream is cut, and the guide shows the code that is here.

use custom_node::MaskEmails;
use graphmill_calculators::payload::{Finish, TextChunk};
use graphmill_engine::testing::{Harness, check};
use graphmill_engine::{Environment, Registry};

const NODE: &str = r#"node {
    calculator: "MaskEmailsCalculator" input_stream: "TEXT:text" output_stream: "TEXT:masked"
    node_options { [type.googleapis.com/MaskEmailsCalculatorOptions] { mask: "***" } }
}"#;

fn chunk(index: u32, text: &str) -> TextChunk {
    TextChunk {
        index,
        text: text.to_owned(),
        ..TextChunk::default()
    }
}

/// What comes out of the node for text that comes in these pieces.
fn masked(pieces: &[&str]) -> String {
    let mut harness = Harness::for_calculator::<MaskEmails>(NODE);
    for (piece, time) in pieces.iter().zip(0..) {
        harness.push("text", time, chunk(0, piece));
    }
    let end = TextChunk {
        finish: Some(Finish::Stop),
        ..chunk(0, "")
    };
    harness.push("text", pieces.len() as i64, end);
    harness.finish();
    let texts = harness.packets("masked");
    texts
        .iter()
        .filter_map(|packet| packet.get::<TextChunk>())
        .map(|chunk| chunk.text.as_str())
        .collect()
}

#[test]
fn addresses_are_masked_wherever_the_stream_is_cut() {
    let text =
        "Write to ann@example.org, or to <b.c+d@x-y.co.uk>. Not @home, not a@b, 5@. Bye: z@z.zz";
    let expected = "Write to ***, or to <***>. Not @home, not a@b, 5@. Bye: ***";
    for cut in 1..text.len() {
        let pieces: Vec<&str> = text
            .as_bytes()
            .chunks(cut)
            .map(|piece| std::str::from_utf8(piece).expect("ASCII"))
            .collect();
        assert_eq!(masked(&pieces), expected, "in pieces of {cut}");
    }
}

#[test]
fn only_the_last_word_waits() {
    let mut harness = Harness::for_calculator::<MaskEmails>(NODE);
    harness
        .push("text", 0, chunk(0, "mail a@b"))
        .expect("masked", [(0, chunk(0, "mail "))]);
    harness
        .push("text", 1, chunk(0, ".cz "))
        .expect("masked", [(1, chunk(0, "*** "))]);
}

#[test]
fn two_choices_do_not_mix() {
    let mut harness = Harness::for_calculator::<MaskEmails>(NODE);
    harness
        .push("text", 0, chunk(0, "a@"))
        .push("text", 1, chunk(1, "one "))
        .push("text", 2, chunk(0, "b.c "));
    harness.expect(
        "masked",
        [
            (0, chunk(0, "")),
            (1, chunk(1, "one ")),
            (2, chunk(0, "*** ")),
        ],
    );
}

#[test]
fn the_graph_compiles() {
    let environment = Environment::new(Registry::global()).without_loading();
    assert_eq!(check(include_str!("../graph.pbtxt"), &environment), "");
}

#[test]
fn the_guide_shows_this_code() {
    let guide = include_str!("../../../docs/guide/custom-node.md");
    let graph = include_str!("../graph.pbtxt");
    let ours = graph.find("# Ours.").expect("the node in the graph");
    let node = graph[ours..].split("\n\n").next().expect("the node's text");
    let manifest = include_str!("../Cargo.toml");
    let dependencies = &manifest[manifest.find("[dependencies]").expect("dependencies")..];
    for code in [
        include_str!("../src/lib.rs"),
        include_str!("../src/main.rs"),
        dependencies.split("\n\n").next().expect("a table"),
        node,
    ] {
        assert!(
            guide.contains(code.trim_end()),
            "docs/guide/custom-node.md does not show:\n{code}"
        );
    }
    assert!(include_str!("../src/lib.rs").lines().count() < 60);
}

#[test]
fn the_graph_passes_its_tests() {
    let tested = std::process::Command::new(env!("CARGO_BIN_EXE_custom_node"))
        .args([
            "test",
            concat!(env!("CARGO_MANIFEST_DIR"), "/graph.test.toml"),
        ])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success(), "{said}");
}
