//! Side packets: given at the start, or made by nodes.

use graphmill_engine::{Kind, Packet, RunCx, Session, SidePackets, testing::check};

use crate::engine::nodes::{environment, run};

const ADD: &str = r#"input_side_packet: "s" node { calculator: "FromSideCalculator" input_stream: "in" input_side_packet: "VALUE:s" output_stream: "out" }"#;

#[test]
fn a_side_packet_of_the_graph() {
    let mut h = run(ADD).side("s", 100_i64).side("unused", "extra");
    h.push("in", 1, 5_i64).expect("out", [(1, 105_i64)]);
    h.finish();
}

#[test]
fn a_missing_or_wrong_side_packet_stops_the_start() {
    let plan = run(ADD).plan().clone();
    let start = |sides: SidePackets| {
        Session::new(&plan, RunCx::new("x"), sides)
            .err()
            .expect("refused")
    };
    let missing = start(SidePackets::new());
    assert_eq!(
        (missing.kind, missing.message.as_str()),
        (
            Kind::InvalidArgument,
            "side packet `s` is required, but not given"
        )
    );
    let wrong = start(SidePackets::new().with("s", "text"));
    assert_eq!(
        wrong.message,
        "side packet `s` is `&str`, but the graph takes `int`"
    );
    let shared = Packet::new(5, 3_i64);
    assert!(
        Session::new(
            &plan,
            RunCx::new("x"),
            SidePackets::new().with_packet("s", shared)
        )
        .is_ok()
    );
    assert_eq!(plan.open_sessions(), 0);
}

#[test]
fn nodes_open_in_the_order_of_their_side_packets() {
    // The consumer comes first in the file.
    let mut h = run(r#"
        node { calculator: "FromSideCalculator" input_stream: "in" input_side_packet: "VALUE:two" output_stream: "out" }
        node { calculator: "MakeSideCalculator" input_side_packet: "BASE:one" output_side_packet: "OUT:two" }
        node { calculator: "MakeSideCalculator" output_side_packet: "OUT:one" }"#);
    h.push("in", 1, 5_i64).expect("out", [(1, 7_i64)]);
    h.finish();
}

#[test]
fn a_node_waits_for_a_side_packet_that_comes_later() {
    let mut h = run(r#"
        input_stream: "in" input_stream: "value"
        node { calculator: "MakeSideCalculator" input_stream: "IN:value" output_side_packet: "OUT:s" }
        node { calculator: "FromSideCalculator" input_stream: "in" input_side_packet: "VALUE:s" output_stream: "out" }"#);
    h.push("in", 1, 5_i64).expect_nothing("out");
    assert!(
        h.why().to_string().contains("waits for side packet `s`"),
        "{}",
        h.why()
    );
    h.push("value", 1, 1_000_i64)
        .expect("out", [(1, 1_005_i64)]);
    h.push("value", 2, 0_i64);
    assert!(
        h.error()
            .message
            .contains("output side packet `s` is already set")
    );
}

#[test]
fn a_side_packet_of_a_node_cannot_be_given() {
    let plan = run(r#"node { calculator: "MakeSideCalculator" output_side_packet: "OUT:s" }"#)
        .plan()
        .clone();
    let refused = Session::new(&plan, RunCx::new("x"), SidePackets::new().with("s", 1_i64))
        .err()
        .expect("refused");
    assert_eq!(
        refused.message,
        "side packet `s` is given, but a node of the graph makes it"
    );
}

#[test]
fn mistakes_about_side_packets_are_found() {
    insta::assert_snapshot!(check(
        r#"node { calculator: "MakeSideCalculator" output_side_packet: "OUT:s" }
node { calculator: "MakeSideCalculator" output_side_packet: "OUT:s" }
node { calculator: "MakeSideCalculator" input_side_packet: "BASE:a" output_side_packet: "OUT:b" }
node { calculator: "MakeSideCalculator" input_side_packet: "BASE:b" output_side_packet: "OUT:a" }"#,
        &environment()
    ));
}

#[test]
fn a_side_packet_of_a_node_can_be_asked_for() {
    let mut h = run(
        r#"input_stream: "value" node { calculator: "MakeSideCalculator" input_stream: "IN:value" output_side_packet: "OUT:s" }"#,
    );
    assert!(
        h.handle()
            .side_packet("s")
            .expect("a node makes it")
            .is_none()
    );
    h.push("value", 1, 7_i64);
    let packet = h.handle().side_packet("s").expect("a node makes it");
    assert_eq!(packet.and_then(Packet::into_value::<i64>), Some(7));
    assert!(h.handle().side_packet("t").is_err());
}
