//! Input policies: which calls follow from which arrivals.

use graphmill_engine::{Timestamp, testing::Harness};

use crate::engine::nodes::{calls, run};

/// A probe with inputs `a`, `b`, `c` under a policy.
#[track_caller]
fn probe(inputs: &[&str], policy: &str, options: &str) -> Harness {
    let bounds = if options.contains("bounds") {
        "node_options { [type.x/ProbeCalculatorOptions] { bounds: true } }"
    } else {
        ""
    };
    let streams: Vec<String> = inputs
        .iter()
        .map(|input| format!("input_stream: \"{input}\""))
        .collect();
    let streams = streams.join(" ");
    let handler = match policy {
        "" => String::new(),
        policy => format!(
            "input_stream_handler {{ input_stream_handler: \"{policy}InputStreamHandler\" {} }}",
            options.replace("bounds", "")
        ),
    };
    run(&format!(
        "{streams} node {{ calculator: \"ProbeCalculator\" {streams} output_stream: \"CALLS:calls\" {bounds} {handler} }}"
    ))
}

#[test]
fn default_waits_until_a_timestamp_is_settled() {
    let mut h = probe(&["a", "b"], "", "");
    h.push("a", 0, "a0").push("a", 1, "a1");
    assert!(calls(&mut h).is_empty());
    h.push("b", 1, "b1");
    assert_eq!(calls(&mut h), ["0: a0 -", "1: a1 b1"]);
    h.close("b");
    assert!(calls(&mut h).is_empty());
    h.close("a");
    assert_eq!(calls(&mut h), ["close"]);
}

#[test]
fn default_goes_on_at_a_bound() {
    let mut h = probe(&["a", "b"], "", "");
    h.push("a", 5, "a5").bound("b", 5);
    assert!(calls(&mut h).is_empty());
    h.bound("b", 6);
    assert_eq!(calls(&mut h), ["5: a5 -"]);
}

#[test]
fn default_delivers_a_header_before_all_else() {
    let mut h = probe(&["a", "b"], "", "");
    h.push("a", Timestamp::PRE_STREAM, "header")
        .push("b", 0, "b0");
    assert_eq!(calls(&mut h), ["PreStream: header -", "0: - b0"]);
}

#[test]
fn default_is_deterministic() {
    let arrivals = [
        ("a", 1, "a1"),
        ("a", 3, "a3"),
        ("b", 2, "b2"),
        ("b", 3, "b3"),
    ];
    for order in [[0, 1, 2, 3], [0, 2, 1, 3], [2, 0, 3, 1], [2, 3, 0, 1]] {
        let mut h = probe(&["a", "b"], "", "");
        for at in order {
            let (stream, time, value) = arrivals[at];
            h.push(stream, time, value);
        }
        h.finish();
        assert_eq!(calls(&mut h), ["1: a1 -", "2: - b2", "3: a3 b3", "close"]);
    }
}

const TWO_SETS: &str = r#"options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] {
    sync_set { tag_index: ":0" tag_index: ":2" tag_index: ":4" } sync_set { tag_index: ":1" tag_index: ":3" } } }"#;

#[test]
fn sync_sets_are_independent() {
    let mut h = probe(&["a", "b", "c", "d", "e"], "SyncSet", TWO_SETS);
    h.push("a", 0, "a0")
        .push("c", 0, "c0")
        .push("a", 10, "a10")
        .push("e", 0, "e0");
    assert_eq!(calls(&mut h), ["0: a0 - c0 - e0"]);
    h.push("b", -300, "b1")
        .push("b", -200, "b2")
        .push("b", -100, "b3");
    assert!(calls(&mut h).is_empty());
    h.push("d", -200, "d2");
    assert_eq!(calls(&mut h), ["-300: - b1 - - -", "-200: - b2 - d2 -"]);
}

#[test]
fn a_sync_set_closes_for_itself() {
    let mut h = probe(&["a", "b", "c", "d", "e"], "SyncSet", TWO_SETS);
    h.push("a", 30, "a3")
        .push("a", 40, "a4")
        .push("a", 50, "a5")
        .close("a");
    h.push("c", 30, "c3").push("c", 40, "c4");
    assert!(calls(&mut h).is_empty());
    h.push("e", 40, "e4");
    assert_eq!(calls(&mut h), ["30: a3 - c3 - -", "40: a4 - c4 - e4"]);
    h.close("c").close("e");
    assert_eq!(calls(&mut h), ["50: a5 - - - -"]);
    h.close("b").close("d");
    assert_eq!(calls(&mut h), ["close"]);
}

#[test]
fn inputs_in_no_sync_set_form_one_more() {
    let options = r#"options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: ":1" } } }"#;
    let mut h = probe(&["request", "loopback"], "SyncSet", options);
    h.push("request", 0, "r");
    assert_eq!(calls(&mut h), ["0: r -"]);
    h.push("loopback", 7, "l7").push("loopback", 8, "l8");
    assert_eq!(calls(&mut h), ["7: - l7", "8: - l8"]);
}

#[test]
fn sync_sets_tell_once_that_one_of_them_is_done_in_bounds_mode() {
    let options = r#"bounds options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: ":1" } } }"#;
    let mut h = probe(&["request", "loopback"], "SyncSet", options);
    h.push("request", 0, "r").push("loopback", 7, "l7");
    assert_eq!(calls(&mut h), ["0: r -Unstarted", "7: -0 l7"]);
    h.close("request");
    assert_eq!(calls(&mut h), ["8: -Max -7"]);
    h.push("loopback", 8, "l8").close("loopback");
    assert_eq!(calls(&mut h), ["8: -Max l8", "close"]);
}

#[test]
fn immediate_waits_for_nobody() {
    let mut h = probe(&["a", "b"], "Immediate", "");
    h.push("b", 5, "b5");
    assert_eq!(calls(&mut h), ["5: - b5"]);
    h.push("a", 1, "a1");
    assert_eq!(calls(&mut h), ["1: a1 -"], "the time of calls may go back");
}

#[test]
fn immediate_calls_once_more_when_an_input_is_done() {
    let mut h = probe(&["a", "b"], "Immediate", "");
    h.push("a", 1, "a1").push("b", 4, "b4");
    calls(&mut h);
    h.close("a");
    assert_eq!(
        calls(&mut h),
        ["5: - -"],
        "at the smallest bound of the others"
    );
    h.push("b", 6, "b6").close("b");
    assert_eq!(calls(&mut h), ["6: - b6", "close"]);
}

#[test]
fn immediate_tells_bounds() {
    let mut h = probe(&["a", "b", "c"], "Immediate", "bounds");
    h.push("a", 1, "a1");
    assert_eq!(calls(&mut h), ["1: a1 -Unstarted -Unstarted"]);
    h.push("b", 2, "b2").push("c", 3, "c3");
    assert_eq!(calls(&mut h), ["2: -1 b2 -Unstarted", "3: -1 -2 c3"]);
    h.bound("a", 5);
    assert_eq!(calls(&mut h), ["4: -4 -2 -3"]);
    h.close("b");
    assert_eq!(calls(&mut h), ["Max: -4 -Max -3"]);
    h.close("a").close("c");
    assert_eq!(
        calls(&mut h),
        ["Max: -Max -Max -3", "Max: -Max -Max -Max", "close"]
    );
}

#[test]
fn default_tells_bounds() {
    let mut h = probe(&["a", "b"], "Default", "bounds");
    h.push("a", 10, "a10");
    assert!(calls(&mut h).is_empty());
    h.bound("b", 5);
    assert_eq!(calls(&mut h), ["4: -9 -4"]);
    h.bound("b", 20);
    assert_eq!(calls(&mut h), ["10: a10 -19"]);
    h.bound("a", 15);
    assert_eq!(calls(&mut h), ["14: -14 -19"]);
}

#[test]
fn fixed_size_keeps_the_newest() {
    let options = "options { [mediapipe.FixedSizeInputStreamHandlerOptions.ext] { trigger_queue_size: 3 target_queue_size: 2 } }";
    let mut h = probe(&["a", "b"], "FixedSize", options);
    for (time, value) in [(1, "a1"), (2, "a2"), (3, "a3"), (4, "a4")] {
        h.push("a", time, value);
    }
    h.push("b", 1, "b1").push("b", 2, "b2");
    assert!(
        calls(&mut h).is_empty(),
        "what is older than the cut is dropped, also when it comes late"
    );
    h.push("b", 4, "b4");
    assert_eq!(calls(&mut h), ["3: a3 -", "4: a4 b4"]);
}

#[test]
fn barrier_ignores_timestamps() {
    let mut h = probe(&["a", "b"], "Barrier", "");
    h.push("a", 1, "a1").push("a", 2, "a2").push("b", 10, "b10");
    assert_eq!(calls(&mut h), ["1: a1 b10"]);
    h.push("b", 12, "b12");
    assert_eq!(calls(&mut h), ["2: a2 b12"]);
    h.close("a");
    assert_eq!(calls(&mut h), ["close"]);
}

#[test]
fn mux_delivers_what_the_control_selects() {
    let mux = |inputs: &[&str]| probe(inputs, "Mux", "");
    let mut h = mux(&["in0", "in1", "select"]);
    h.push("in0", 1, "x")
        .push("in1", 1, "y")
        .push("select", 1, 1_i64);
    assert_eq!(calls(&mut h), ["1: - y ?"]);
    h.push("select", 3, 0_i64);
    assert!(calls(&mut h).is_empty());
    h.bound("in0", 5);
    assert_eq!(calls(&mut h), ["3: - - ?"]);
    h.push("select", 6, 0_i64)
        .push("in1", 10, "late")
        .push("in0", 6, "z");
    assert_eq!(calls(&mut h), ["6: z - ?"]);
    h.push("select", 10, 1_i64);
    assert_eq!(calls(&mut h), ["10: - late ?"]);
    h.close("select");
    assert_eq!(calls(&mut h), ["close"]);
}

#[test]
fn timestamp_align_shifts_time_lines() {
    let options = r#"options { [mediapipe.TimestampAlignInputStreamHandlerOptions.ext] { timestamp_base_tag_index: ":0" } }"#;
    let mut h = probe(&["camera", "video"], "TimestampAlign", options);
    h.push("camera", 101, "c1").push("camera", 102, "c2");
    assert_eq!(calls(&mut h), ["101: c1 -", "102: c2 -"]);
    h.push("video", 1, "v1").push("camera", 103, "c3");
    assert_eq!(calls(&mut h), ["103: c3 v1"]);
    h.push("camera", 104, "c4");
    assert!(calls(&mut h).is_empty());
    h.push("video", 2, "v2");
    assert_eq!(calls(&mut h), ["104: c4 v2"]);
}

#[test]
fn early_close_does_not_wait_for_the_rest() {
    let mut h = probe(&["a", "b"], "EarlyClose", "");
    h.push("a", 1, "a1").push("b", 1, "b1");
    assert_eq!(calls(&mut h), ["1: a1 b1"]);
    h.close("a");
    assert_eq!(calls(&mut h), ["close"]);
}

#[test]
fn a_policy_of_the_graph_is_for_nodes_without_one() {
    let mut h = run(r#"
        input_stream: "a" input_stream: "b"
        input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" }
        node { calculator: "ProbeCalculator" input_stream: "a" input_stream: "b" output_stream: "CALLS:calls" }
        node { calculator: "ProbeCalculator" input_stream: "a" input_stream: "b" output_stream: "CALLS:others"
               input_stream_handler { input_stream_handler: "DefaultInputStreamHandler" } }"#);
    h.push("a", 1, "x");
    assert_eq!(calls(&mut h), ["1: x -"]);
    h.expect_nothing("others");
}

fn batches(size: u32, inputs: &str) -> String {
    format!(
        r#"node {{ calculator: "ProbeCalculator" {inputs} output_stream: "CALLS:calls"
             input_stream_handler {{ options {{ [mediapipe.DefaultInputStreamHandlerOptions.ext] {{ batch_size: {size} }} }} }} }}"#
    )
}

#[test]
fn batches_wait_until_they_are_complete() {
    let mut h = run(&batches(2, r#"input_stream: "a""#));
    h.push("a", 1, "x");
    assert_eq!(calls(&mut h), [""; 0]);
    h.push("a", 2, "y");
    assert_eq!(calls(&mut h), ["1: x", "2: y"]);
    h.push("a", 3, "z");
    assert_eq!(calls(&mut h), [""; 0]);
    h.close("a");
    assert_eq!(
        calls(&mut h),
        ["3: z", "close"],
        "the rest comes at the end"
    );
}

#[test]
fn a_batch_counts_input_sets_and_not_packets() {
    let mut h = run(&batches(2, r#"input_stream: "a" input_stream: "b""#));
    h.push("a", 1, "x").push("b", 1, "y").push("a", 5, "z");
    assert_eq!(calls(&mut h), [""; 0], "5 is not settled on `b`");
    h.bound("b", 6);
    assert_eq!(calls(&mut h), ["1: x y", "5: z -"]);
    h.finish();
}

#[test]
fn outputs_are_settled_up_to_the_first_of_a_batch() {
    let text = r#"node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out"
        input_stream_handler { options { [mediapipe.DefaultInputStreamHandlerOptions.ext] { batch_size: 3 } } } }"#;
    let mut h = run(text);
    h.push("in", 5, 5_i64)
        .push("in", 7, 7_i64)
        .expect_nothing("out");
    assert_eq!(h.bounds("out"), [graphmill_engine::Timestamp::new(4)]);
    h.push("in", 9, 9_i64)
        .expect("out", [(5, 5_i64), (7, 7), (9, 9)]);
    h.finish();
}

#[test]
fn a_batch_may_be_larger_than_a_queue() {
    let mut h = run(&format!(
        "report_deadlock: true max_queue_size: 1 {}",
        batches(3, r#"input_stream: "a""#)
    ));
    h.push("a", 1, "x").push("a", 2, "y").push("a", 3, "z");
    assert_eq!(calls(&mut h), ["1: x", "2: y", "3: z"]);
    h.finish();
}
