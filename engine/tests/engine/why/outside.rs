//! Nodes that wait for something from outside of the graph.

use graphmill_engine::{Handle, Session};

use super::{ask, chain, push, start};

/// A node in a loop that asks for words, whose back edge comes by way of `around`.
fn words(options: &str, around: &str, policy: &str) -> (Session, Handle) {
    start(&format!(
        r#"input_stream: "in" output_stream: "sum" output_stream: "back"
        node {{ name: "words" calculator: "WordsCalculator" input_stream: "ASK:in" input_stream: "LOOP:back"
               input_stream_info {{ tag_index: "LOOP" back_edge: true }} {policy}
               output_stream: "WORDS:words" output_stream: "LOOP:forth"
               node_options {{ [type.x/WordsCalculatorOptions] {{ {options} }} }} }}
        node {{ name: "around" calculator: "{around}" input_stream: "forth" output_stream: "back" }}
        node {{ name: "sum" calculator: "AddCalculator" input_stream: "in" input_stream: "words" output_stream: "sum" }}"#
    ))
}

const WAITS_FOR_WORDS: &str = "`sum` waits for stream `words` from `words`, on which nothing came yet; 1 packet waits with it, at 4";

#[test]
fn on_what_a_node_in_a_loop_says_it_waits_for() {
    let own_set = r#"input_stream_handler { input_stream_handler: "SyncSetInputStreamHandler"
        options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOP" } } } }"#;
    for policy in ["", own_set] {
        let (mut session, handle) = words("", "PassThroughCalculator", policy);
        push(&handle, "in", 4, 0_i64);
        let expected = [WAITS_FOR_WORDS, "`words` waits for the third word"];
        let why = ask(&mut session);
        assert_eq!(chain(&why), expected, "{policy}");
        let wait = serde_json::to_value(&why.chains[0][1]).expect("it serializes");
        assert_eq!(wait["waits_for"], "event");
        assert_eq!(wait["what"], "the third word");
        handle.close_all();
        assert_eq!(chain(&ask(&mut session)), expected, "{policy}");
    }
}

#[test]
fn on_what_goes_around_where_nothing_comes_from_outside_before_that() {
    let (mut session, handle) = words("spent: true", "PassThroughCalculator", "");
    push(&handle, "in", 4, 0_i64);
    handle.close_all();
    assert_eq!(
        chain(&ask(&mut session)),
        [
            WAITS_FOR_WORDS,
            "`words` waits for stream `back` from `around`, on which nothing came yet",
            "`around` waits for stream `forth` from `words`, on which nothing came yet",
            "`words` waits for itself: `words` > `around` > `words`",
        ]
    );
}

#[test]
fn on_what_comes_in_before_anything_can_go_around() {
    let (mut session, handle) = words("", "PassThroughCalculator", "");
    let bound = graphmill_engine::Timestamp::new(7);
    handle.bound("in", bound).expect("it is an input");
    let why = ask(&mut session);
    let words = why.nodes.iter().find(|wait| wait.node == "words");
    assert_eq!(
        words.expect("it is open").to_string(),
        "`words` waits for graph input `in`, known before 7; it is not closed"
    );
}

#[test]
fn on_an_event_where_the_node_cannot_say_more() {
    let (mut session, handle) = words("panics: true", "PassThroughCalculator", "");
    push(&handle, "in", 4, 0_i64);
    assert_eq!(
        chain(&ask(&mut session)),
        [
            WAITS_FOR_WORDS,
            "`words` waits for an event, or the release of its holds"
        ]
    );
}

#[test]
fn on_an_event() {
    let (mut session, handle) = start(
        r#"input_stream: "in" output_stream: "sum"
        node { calculator: "ListenCalculator" input_stream: "in" output_stream: "heard" }
        node { calculator: "AddCalculator" input_stream: "in" input_stream: "heard" output_stream: "sum" }"#,
    );
    push(&handle, "in", 4, 0_i64);
    let expected = [
        "`AddCalculator` waits for stream `heard` from `ListenCalculator`, on which nothing came yet; 1 packet waits with it, at 4",
        "`ListenCalculator` waits for an event, or the release of its holds",
    ];
    assert_eq!(chain(&ask(&mut session)), expected);
    handle.close_all();
    assert_eq!(
        chain(&ask(&mut session)),
        expected,
        "also when nothing more can come"
    );
}

#[test]
fn on_what_holds_a_node_before_the_input_that_its_packets_wait_for() {
    let (mut session, handle) = start(
        r#"input_stream: "a" input_stream: "b" output_stream: "c"
        node { calculator: "PairCalculator" input_stream: "A:a" input_stream: "B:b" output_stream: "c" }"#,
    );
    for (stream, time) in [("a", 1), ("b", 1), ("a", 2)] {
        push(&handle, stream, time, 0_i64);
    }
    let why = ask(&mut session);
    let held = "`PairCalculator` waits for an event, or the release of its holds";
    let roots: Vec<String> = why.roots().map(ToString::to_string).collect();
    assert_eq!(
        roots,
        [
            held,
            "`PairCalculator` waits for graph input `b`, known before 2; it is not closed; 1 packet waits with it, at 2",
        ]
    );
    assert_eq!(why.nodes[0].to_string(), held);
}
