//! Nodes that wait for themselves.

use super::{ask, chain, push, start};

#[test]
fn on_a_back_edge_in_the_only_sync_set() {
    let (mut session, handle) = start(
        r#"input_stream: "in" output_stream: "out"
        node { name: "start" calculator: "AddCalculator" input_stream: "in" input_stream: "back" output_stream: "out"
               input_stream_info { tag_index: ":1" back_edge: true } }
        node { name: "end" calculator: "AddCalculator" input_stream: "out" output_stream: "back" }"#,
    );
    push(&handle, "in", 1, 1_i64);
    assert_eq!(
        chain(&ask(&mut session)),
        [
            "`start` waits for stream `back` from `end`, on which nothing came yet; 1 packet waits with it, at 1",
            "`end` waits for stream `out` from `start`, on which nothing came yet",
            "`start` waits for itself: `start` > `end` > `start`; give back edge `back` a first packet, or a sync set of its own",
        ]
    );
}

#[test]
fn on_each_other_by_way_of_a_full_queue() {
    // The pending call is what keeps the queue from growing.
    let (mut session, handle) = start(
        r#"input_stream: "in" input_stream: "other" output_stream: "sum" max_queue_size: 2
        node { calculator: "NeverCalculator" input_stream: "other" output_stream: "never" }
        node { calculator: "LopsidedCalculator" input_stream: "in" output_stream: "MANY:many" output_stream: "NONE:none" }
        node { calculator: "AddCalculator" input_stream: "many" input_stream: "none" output_stream: "sum" }"#,
    );
    push(&handle, "other", 0, 0_i64);
    push(&handle, "in", 0, 0_i64);
    push(&handle, "in", 1, 0_i64);
    let why = ask(&mut session);
    let waits: Vec<String> = why.chains[0].iter().map(ToString::to_string).collect();
    assert_eq!(
        waits,
        [
            "`LopsidedCalculator` waits for room in the queue of stream `many` at `AddCalculator`, full with 10 packets",
            "`AddCalculator` waits for stream `none` from `LopsidedCalculator`, on which nothing came yet; 10 packets wait with it, the first at 0",
            "`LopsidedCalculator` waits for itself: `LopsidedCalculator` > `AddCalculator` > `LopsidedCalculator`",
        ]
    );
    assert_eq!(
        why.chains.len(),
        2,
        "the loop once, and the pending call: {why}"
    );
}

#[test]
fn on_a_lower_layer() {
    let (mut session, _handle) = start(
        r#"input_stream: "in" output_stream: "out"
        node { name: "late" calculator: "CountCalculator" output_stream: "n" source_layer: 1 }
        node { name: "make" calculator: "MakeSideCalculator" input_stream: "IN:n" output_side_packet: "OUT:s" }
        node { name: "early" calculator: "NeedyCalculator" input_side_packet: "VALUE:s" output_stream: "out" }
        node { calculator: "AddCalculator" input_stream: "in" output_stream: "unread" }"#,
    );
    assert_eq!(
        chain(&ask(&mut session)),
        [
            "`late` is a source of layer 1 and waits for `early` of a lower layer to be done",
            "`early` waits for side packet `s` from `make`",
            "`make` waits for stream `n` from `late`, on which nothing came yet",
            "`late` waits for itself: `late` > `early` > `make` > `late`",
        ]
    );
}
