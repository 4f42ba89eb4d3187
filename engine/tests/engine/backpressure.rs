//! Full queues stop those who fill them, and nothing grows without a reason.

use std::{
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use graphmill_engine::{Handle, Kind, OutputStream, Packet, Plan, RunCx, Session, SidePackets};

use crate::engine::nodes::run;

fn start(text: &str) -> (Session, Handle) {
    let plan: std::sync::Arc<Plan> = run(text).plan().clone();
    Session::new(&plan, RunCx::new("x"), SidePackets::new()).expect("starts")
}

fn poll(session: &mut Session) -> Poll<graphmill_engine::Result<graphmill_engine::Summary>> {
    Pin::new(session).poll(&mut Context::from_waker(Waker::noop()))
}

const CHAIN: &str = r#"
    input_stream: "in" output_stream: "out" max_queue_size: 3
    node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "middle" }
    node { calculator: "PassThroughCalculator" input_stream: "middle" output_stream: "out" }"#;

#[test]
fn a_reader_that_does_not_read_stops_the_graph() {
    let (mut session, handle) = start(CHAIN);
    let mut out = handle.output("out").expect("before the start");
    let mut pushed = 0;
    loop {
        let packet = Packet::new(pushed, pushed);
        let Err(error) = handle.try_push("in", packet) else {
            pushed += 1;
            assert!(poll(&mut session).is_pending());
            continue;
        };
        assert_eq!(error.kind, Kind::Unavailable);
        break;
    }
    // Sixteen at the reader, three in each of the two queues.
    assert_eq!(pushed as usize, OutputStream::CAPACITY + 2 * 3);
    let why = session.why().to_string();
    assert!(why.contains("the reader of output `out`"), "{why}");
    assert!(
        why.contains("room in the queue of stream `middle`"),
        "{why}"
    );

    handle.close("in").expect("the session lives");
    let mut read = Vec::new();
    while poll(&mut session).is_pending() {
        read.extend(out.try_next().and_then(Packet::into_value::<i64>));
    }
    while let Some(packet) = out.try_next() {
        read.extend(packet.into_value::<i64>());
    }
    assert_eq!(read, (0..pushed).collect::<Vec<_>>());
}

#[test]
fn a_push_waits_for_room() {
    let (mut session, handle) = start(CHAIN);
    let mut out = handle.output("out").expect("before the start");
    let mut cx = Context::from_waker(Waker::noop());
    let mut pushed = 0;
    while handle.try_push("in", Packet::new(pushed, pushed)).is_ok() {
        pushed += 1;
        assert!(poll(&mut session).is_pending());
    }
    let mut push = pin!(handle.push("in", Packet::new(pushed, pushed)));
    assert!(push.as_mut().poll(&mut cx).is_pending());
    while out.try_next().is_some() {}
    assert!(poll(&mut session).is_pending());
    assert!(matches!(push.as_mut().poll(&mut cx), Poll::Ready(Ok(()))));
}

#[test]
fn a_reader_that_leaves_stops_nothing() {
    let (mut session, handle) = start(CHAIN);
    let out = handle.output("out").expect("before the start");
    let mut dropped = Some(out);
    for time in 0..200 {
        handle
            .try_push("in", Packet::new(time, time))
            .expect("there is room once nobody has to read");
        assert!(poll(&mut session).is_pending());
        if time == 10 {
            dropped = None;
        }
    }
    assert!(dropped.is_none());
}

#[test]
fn outputs_that_nobody_takes_are_thrown_away() {
    let (mut session, handle) = start(CHAIN);
    for time in 0..200 {
        handle
            .try_push("in", Packet::new(time, time))
            .expect("room");
        assert!(poll(&mut session).is_pending());
    }
    let late = handle.output("out").expect_err("the session has started");
    assert!(late.message.contains("before the session starts"));
}

#[test]
fn a_source_waits_for_a_full_queue() {
    let (mut session, handle) = start(
        r#"max_queue_size: 2
        node { calculator: "CountCalculator" output_stream: "n" node_options { [type.x/CountCalculatorOptions] { to: 1000 } } }
        node { calculator: "PassThroughCalculator" input_stream: "n" output_stream: "out" }"#,
    );
    let mut out = handle.output("out").expect("before the start");
    while poll(&mut session).is_pending() && !session.why().to_string().contains("reader") {}
    let mut count = 0_i64;
    while !matches!(poll(&mut session), Poll::Ready(Ok(_))) {
        let mut batch = 0;
        while let Some(packet) = out.try_next() {
            assert_eq!(packet.get(), Some(&count));
            count += 1;
            batch += 1;
        }
        assert!(
            batch <= OutputStream::CAPACITY,
            "no more than the queue holds waits for the reader"
        );
    }
    while out.try_next().is_some() {
        count += 1;
    }
    assert_eq!(count, 1_000);
}

/// A node writes both inputs of a join, but one of them ten times as often.
const JOIN: &str = r#"
    input_stream: "a" input_stream: "b" max_queue_size: 2 REPORT
    node { calculator: "RepeatCalculator" input_stream: "a" output_stream: "many" }
    node { calculator: "AddCalculator" input_stream: "many" input_stream: "b" output_stream: "sum" }"#;

#[test]
fn a_full_queue_at_a_join_grows() {
    let mut h = run(&JOIN.replace("REPORT", ""));
    for time in 0..5 {
        h.push("a", time, time);
    }
    h.expect_nothing("sum");
    h.push("b", 49, 1_i64);
    assert_eq!(h.packets("sum").len(), 50);
    h.finish();
}

#[test]
fn a_deadlock_is_reported_if_the_graph_wants_that() {
    let mut h = run(&JOIN.replace("REPORT", "report_deadlock: true"));
    h.push("a", 0, 0_i64);
    let error = h.error();
    assert_eq!(error.kind, Kind::Unavailable);
    assert!(
        error
            .message
            .contains("the queue of stream `many` is full with 10 packets"),
        "{error}"
    );
}

#[test]
fn a_graph_input_at_a_join_grows_too() {
    let text = r#"input_stream: "a" input_stream: "b" max_queue_size: 2 REPORT
        node { calculator: "AddCalculator" input_stream: "a" input_stream: "b" output_stream: "sum" }"#;
    let mut h = run(&text.replace("REPORT", ""));
    for time in 0..50 {
        h.push("a", time, 1_i64);
    }
    h.close("b");
    assert_eq!(h.packets("sum").len(), 50);

    let mut h = run(&text.replace("REPORT", "report_deadlock: true"));
    h.push("a", 1, 1_i64).push("a", 2, 2_i64);
    assert!(
        h.error().message.contains("deadlock"),
        "two packets fill the queue"
    );
}

#[test]
fn an_unlimited_queue_never_blocks() {
    let (mut session, handle) = start(&CHAIN.replace("max_queue_size: 3", "max_queue_size: -1"));
    let _out = handle.output("out").expect("before the start");
    for time in 0..5_000 {
        handle
            .try_push("in", Packet::new(time, time))
            .expect("no limit");
    }
    assert!(poll(&mut session).is_pending());
}

#[test]
fn one_stream_may_have_a_limit_of_its_own() {
    let plan: std::sync::Arc<Plan> = run(CHAIN).plan().clone();
    let (mut session, handle) =
        Session::new(&plan, RunCx::new("x"), SidePackets::new()).expect("starts");
    session.limit_queues("in", 1).expect("not started");
    handle
        .try_push("in", Packet::new(0, 0))
        .expect("room for one");
    let full = handle.try_push("in", Packet::new(1, 1)).expect_err("full");
    assert_eq!(full.kind, Kind::Unavailable);
    assert!(session.limit_queues("in", 0).is_err());
    assert!(session.limit_queues("no", 1).is_err());
    assert!(poll(&mut session).is_pending());
    let late = session.limit_queues("in", 2).expect_err("started");
    assert!(late.message.contains("before the session starts"));
}
