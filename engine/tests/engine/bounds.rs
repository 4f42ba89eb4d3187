//! How timestamp bounds travel without packets.

use graphmill_engine::{Timestamp, testing::Harness};

use crate::engine::nodes::run;

#[test]
fn an_offset_passes_bounds_on() {
    let mut h = run(
        r#"node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#,
    );
    h.push("in", 10, "x").bound("in", 20);
    h.expect("out", [(10, "x")]);
    assert_eq!(h.bounds("out"), [Timestamp::new(19)]);
}

#[test]
fn a_chain_passes_bounds_on() {
    let mut h = run(r#"
        node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "b" }
        node { calculator: "PassThroughCalculator" input_stream: "b" output_stream: "c" }
        node { calculator: "PassThroughCalculator" input_stream: "c" output_stream: "d" }"#);
    h.bound("a", 100);
    assert_eq!(h.bounds("d"), [Timestamp::new(99)]);
}

/// Two inputs of one node, of which one only moves its bound.
fn config_and_frame() -> Harness {
    run(r#"
        input_stream: "config" input_stream: "frame"
        node { calculator: "PassThroughCalculator" input_stream: "config" input_stream: "frame"
               output_stream: "output_config" output_stream: "output_frame" }"#)
}

#[track_caller]
fn see(h: &mut Harness, packets: &[i64], bounds: &[i64]) {
    let seen: Vec<Timestamp> = h
        .packets("output_frame")
        .iter()
        .map(|packet| packet.time)
        .collect();
    assert_eq!(
        seen,
        packets
            .iter()
            .map(|&time| Timestamp::new(time))
            .collect::<Vec<_>>()
    );
    let seen = h.bounds("output_frame");
    assert_eq!(
        seen,
        bounds
            .iter()
            .map(|&time| Timestamp::new(time))
            .collect::<Vec<_>>()
    );
}

#[test]
fn bounds_move_while_a_node_waits() {
    let mut h = config_and_frame();
    h.push("frame", 0, "f");
    see(&mut h, &[], &[]);
    h.bound("config", 10_000);
    see(&mut h, &[0], &[]);
    h.push("frame", 20_000, "f");
    see(&mut h, &[], &[9_999]);
    h.bound("config", 30_000);
    see(&mut h, &[20_000], &[]);
    h.push("frame", 40_000, "f");
    see(&mut h, &[], &[29_999]);
    h.push("config", 50_000, "c");
    see(&mut h, &[40_000], &[]);
    h.push("frame", 60_000, "f");
    see(&mut h, &[], &[50_000]);
    h.bound("config", 70_000);
    see(&mut h, &[60_000], &[]);
}

#[test]
fn without_an_offset_only_explicit_bounds_move() {
    let mut h =
        run(r#"node { calculator: "HintCalculator" input_stream: "in" output_stream: "out" }"#);
    h.push("in", 1, 50_i64).bound("in", 40);
    assert_eq!(h.bounds("out"), [Timestamp::new(49)]);
    h.push("in", 41, 20_i64);
    assert!(h.error().message.contains("cannot go back from 50 to 20"));
}

#[test]
fn an_offset_shifts_bounds() {
    let mut h =
        run(r#"node { calculator: "DelayCalculator" input_stream: "in" output_stream: "out" }"#);
    h.push("in", 5, 7_i64).expect("out", [(0, 0_i64), (6, 7)]);
    h.bound("in", 10);
    assert_eq!(h.bounds("out"), [Timestamp::new(10)]);
}

#[test]
fn closing_reaches_the_end() {
    let mut h = run(r#"
        node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "b" }
        node { calculator: "PassThroughCalculator" input_stream: "b" output_stream: "c" }"#);
    h.push("a", 3, "x");
    let summary = h.finish();
    h.expect("c", [(3, "x")]);
    let runs: Vec<u64> = summary.nodes().map(|node| node.runs).collect();
    assert_eq!(runs, [2, 2], "one call with the packet, one to close");
}
