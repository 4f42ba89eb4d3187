//! One session's failure is its own.

use std::{
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use graphmill_engine::{Kind, Packet, RunCx, Session, SidePackets, testing::Harness};

use crate::engine::nodes::run;

fn failing(at: &str, panic: bool) -> Harness {
    run(&format!(
        r#"node {{ name: "fails" calculator: "FailCalculator" input_stream: "in" output_stream: "out"
             node_options {{ [type.x/FailCalculatorOptions] {{ at: "{at}" panic: {panic} }} }} }}"#
    ))
}

#[test]
fn an_error_names_node_code_and_field() {
    let mut h = failing("process", false);
    h.push("in", 1, 12_i64).push("in", 2, 13_i64);
    let error = h.error();
    assert_eq!(error.kind, Kind::InvalidArgument);
    assert_eq!(error.node.as_deref(), Some("fails"));
    assert_eq!(
        (error.code.as_deref(), error.field.as_deref()),
        (Some("unlucky"), Some("number"))
    );
    assert_eq!(error.to_string(), "node `fails`: thirteen is refused");
    h.expect("out", [(1, 12_i64)]);
}

#[test]
fn errors_in_open_and_close_end_the_session_too() {
    let mut h = failing("open", false);
    assert_eq!(h.error().node.as_deref(), Some("fails"));
    let mut h = failing("close", false);
    h.push("in", 1, 1_i64).close("in");
    assert_eq!(h.error().node.as_deref(), Some("fails"));
    h.expect("out", [(1, 1_i64)]);
}

#[test]
fn a_panic_is_an_error_of_its_session() {
    for at in ["open", "process", "close"] {
        let mut h = failing(at, true);
        h.start();
        if !h.ended() {
            h.push("in", 1, 13_i64);
        }
        if !h.ended() {
            h.close("in");
        }
        let error = h.error();
        assert_eq!(error.kind, Kind::Internal);
        assert!(
            error.message.contains("this panic is a part of the test"),
            "{error}"
        );
        assert_eq!(h.plan().open_sessions(), 0);
    }
}

#[test]
fn other_sessions_of_the_plan_go_on() {
    let h = failing("process", true);
    let start = || Session::new(h.plan(), RunCx::new("x"), SidePackets::new()).expect("starts");
    let ((mut bad, bad_handle), (mut good, good_handle)) = (start(), start());
    let mut out = good_handle.output("out").expect("before the start");
    let mut cx = Context::from_waker(Waker::noop());
    bad_handle
        .try_push("in", Packet::new(0, 13_i64))
        .expect("room");
    good_handle
        .try_push("in", Packet::new(0, 13_i64 - 1))
        .expect("room");
    assert_eq!(h.plan().open_sessions(), 2);
    assert!(matches!(
        Pin::new(&mut bad).poll(&mut cx),
        Poll::Ready(Err(_))
    ));
    assert_eq!(h.plan().open_sessions(), 1);
    assert!(Pin::new(&mut good).poll(&mut cx).is_pending());
    good_handle.close("in").expect("the session lives");
    assert!(matches!(
        Pin::new(&mut good).poll(&mut cx),
        Poll::Ready(Ok(_))
    ));
    assert_eq!(out.try_next().and_then(Packet::into_value::<i64>), Some(12));
    assert_eq!(h.plan().open_sessions(), 0);
}

#[test]
fn who_waits_on_a_failed_session_is_told() {
    let h = failing("process", false);
    let (mut session, handle) =
        Session::new(h.plan(), RunCx::new("x"), SidePackets::new()).expect("starts");
    let mut out = handle.output("out").expect("before the start");
    handle.try_push("in", Packet::new(0, 13_i64)).expect("room");
    let mut cx = Context::from_waker(Waker::noop());
    assert!(pin!(out.next()).poll(&mut cx).is_pending());
    assert!(Pin::new(&mut session).poll(&mut cx).is_ready());
    assert!(matches!(pin!(out.next()).poll(&mut cx), Poll::Ready(None)));
    assert!(matches!(
        pin!(handle.outcome()).poll(&mut cx),
        Poll::Ready(Err(_))
    ));
    let refused = handle
        .try_push("in", Packet::new(1, 1_i64))
        .expect_err("the session has failed");
    assert_eq!(refused.message, "thirteen is refused");
}

#[test]
fn a_value_of_another_type_is_refused_where_it_enters() {
    let mut h = failing("process", false);
    let message = "stream `in` carries `int`, but the packet at 1 is `&str`";
    h.start();
    let refused = h.handle().try_push("in", Packet::new(1, "text"));
    assert!(refused.is_err_and(|error| error.message == message));
    assert!(h.settle().error().message.contains(message));
}

/// Panics when it is dropped.
struct Brittle;

impl graphmill_engine::Calculator for Brittle {
    const NAME: &'static str = "BrittleCalculator";
    type Options = graphmill_engine::NoOptions;
    type Ports = graphmill_engine::In<i64>;

    fn contract(c: &mut graphmill_engine::Contract, _: &Self::Options) -> Self::Ports {
        c.input("")
    }

    fn open(
        _: &Self::Options,
        _: Self::Ports,
        _: &mut graphmill_engine::OpenCx<'_>,
    ) -> graphmill_engine::Result<Self> {
        Ok(Self)
    }

    fn process(
        &mut self,
        _: Self::Ports,
        _: &mut graphmill_engine::Cx<'_>,
    ) -> graphmill_engine::Result<graphmill_engine::Flow> {
        Ok(graphmill_engine::Flow::Continue)
    }
}

impl Drop for Brittle {
    fn drop(&mut self) {
        panic!("this panic is a part of the test");
    }
}

#[test]
fn a_panic_while_a_node_is_dropped_stays_inside() {
    let text = r#"node { calculator: "BrittleCalculator" input_stream: "in" }"#;
    let mut closed = Harness::for_calculator::<Brittle>(text);
    closed.push("in", 1, 1_i64).close("in");
    assert_eq!(closed.error().node.as_deref(), Some("BrittleCalculator"));
    let mut dropped = Harness::for_calculator::<Brittle>(text);
    dropped.push("in", 1, 1_i64).drop_session();
    assert_eq!(dropped.plan().open_sessions(), 0);
}
