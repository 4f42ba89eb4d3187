//! Sessions that are stuck say why: one test for each way to be.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use graphmill_engine::{
    Executors, Handle, Packet, Payload, Plan, Registry, RunCx, Session, SidePackets, Why,
    testing::ManualExecutor,
};
use graphmill_grammar::{SourceMap, parse_graph};

use crate::engine::nodes::environment_with;

mod calls;
mod circles;
mod nodes;
mod outside;

use nodes::{Gate, Listen, Lopsided, Needy, Never, Pair, Says, Words};

fn start(text: &str) -> (Session, Handle) {
    Session::new(&plan(text), RunCx::new("x"), SidePackets::new()).expect("starts")
}

fn plan(text: &str) -> Arc<Plan> {
    let registry = Registry::new()
        .with_async::<Never>()
        .with_async::<Says>()
        .with::<Words>()
        .with::<Gate>()
        .with::<Listen>()
        .with::<Pair>()
        .with::<Lopsided>()
        .with::<Needy>();
    let executors = Executors::new();
    executors.insert("elsewhere", Arc::new(ManualExecutor::default()));
    let environment = environment_with(registry).with_executors(Arc::new(executors));
    let mut sources = SourceMap::new();
    let parsed = parse_graph(&mut sources, "stuck.pbtxt", text);
    let (plan, diagnostics) =
        Plan::compile(&parsed.graph.expect("a graph"), &mut sources, &environment);
    plan.unwrap_or_else(|| panic!("{diagnostics:?}"))
}

/// Runs the session until it waits, and asks it why.
#[track_caller]
fn ask(session: &mut Session) -> Why {
    struct Woken(std::sync::atomic::AtomicBool);
    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let woken = Arc::new(Woken(true.into()));
    let waker = Waker::from(Arc::clone(&woken));
    while woken.0.swap(false, std::sync::atomic::Ordering::Relaxed) {
        let polled = Pin::new(&mut *session).poll(&mut Context::from_waker(&waker));
        assert!(matches!(polled, Poll::Pending), "it is stuck: {polled:?}");
    }
    session.why()
}

fn push<T: Payload>(handle: &Handle, stream: &str, time: i64, value: T) {
    handle
        .try_push(stream, Packet::new(time, value))
        .expect("room");
}

/// The waits of the only chain.
#[track_caller]
fn chain(why: &Why) -> Vec<String> {
    assert_eq!(why.chains.len(), 1, "{why}");
    why.chains[0].iter().map(ToString::to_string).collect()
}

#[test]
fn on_a_graph_input() {
    let (mut session, handle) = start(
        r#"input_stream: "a" input_stream: "b" output_stream: "sum"
        node { calculator: "AddCalculator" input_stream: "a" input_stream: "b" output_stream: "sum" }"#,
    );
    push(&handle, "a", 10, 1_i64);
    push(&handle, "a", 20, 1_i64);
    let why = ask(&mut session);
    assert_eq!(
        chain(&why),
        [
            "`AddCalculator` waits for graph input `b`, on which nothing came yet; it is not closed; 2 packets wait with it, the first at 10"
        ]
    );
    let inputs: Vec<String> = why.open_inputs.iter().map(ToString::to_string).collect();
    assert_eq!(inputs, ["`a` from 21 on", "`b`"]);
    handle
        .bound("b", graphmill_engine::Timestamp::new(7))
        .expect("it is an input");
    let why = ask(&mut session);
    assert!(
        chain(&why)[0].contains("`b`, known before 7; it is not closed"),
        "{why}"
    );
}

#[test]
fn on_nothing() {
    let (mut session, handle) = start(
        r#"input_stream: "a" output_stream: "b"
        node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "b" }"#,
    );
    push(&handle, "a", 10, 1_i64);
    let why = ask(&mut session);
    assert_eq!(
        why.to_string(),
        "nothing is on its way\nopen graph inputs: `a` from 11 on\n"
    );
    assert_eq!(why.nodes.len(), 1, "the node is open");
    drop(session);
    assert_eq!(Why::default().roots().count(), 0);
}

#[test]
fn on_a_node_that_moves_no_bound() {
    let (mut session, handle) = start(
        r#"input_stream: "a" output_stream: "sum"
        node { calculator: "HintCalculator" input_stream: "a" output_stream: "hint" }
        node { calculator: "PassThroughCalculator" input_stream: "hint" output_stream: "passed" }
        node { calculator: "AddCalculator" input_stream: "a" input_stream: "passed" output_stream: "sum" }"#,
    );
    push(&handle, "a", 5, 3_i64);
    assert_eq!(
        chain(&ask(&mut session)),
        [
            "`AddCalculator` waits for stream `passed` from `PassThroughCalculator`, known before 3; 1 packet waits with it, at 5",
            "`PassThroughCalculator` waits for stream `hint` from `HintCalculator`, known before 3",
            "`HintCalculator` has dealt with everything before 6, but stream `hint` is known before 3 only: without a timestamp offset it \
             moves only with what is emitted",
        ]
    );
}

#[test]
fn on_a_reader_that_does_not_read() {
    let (mut session, handle) = start(
        r#"input_stream: "in" output_stream: "out" max_queue_size: 3
        node { name: "a" calculator: "PassThroughCalculator" input_stream: "in" output_stream: "x" }
        node { name: "b" calculator: "PassThroughCalculator" input_stream: "x" output_stream: "out" }"#,
    );
    let _out = handle.output("out").expect("not started");
    let mut time = 0;
    while handle.try_push("in", Packet::new(time, time)).is_ok() {
        time += 1;
        ask(&mut session);
    }
    assert_eq!(
        chain(&ask(&mut session)),
        [
            "`a` waits for room in the queue of stream `x` at `b`, full with 3 packets",
            "`b` waits for the reader of output `out`, which reads too slowly: 16 packets wait for it",
        ]
    );
}

#[test]
fn on_a_queue_whose_sibling_starves_and_on_an_async_call() {
    let (mut session, handle) = start(
        r#"input_stream: "in" output_stream: "sum" max_queue_size: 2
        node { calculator: "CountCalculator" output_stream: "n" node_options { [type.x/CountCalculatorOptions] { to: 100 } } }
        node { calculator: "NeverCalculator" input_stream: "in" output_stream: "slow" }
        node { calculator: "AddCalculator" input_stream: "n" input_stream: "slow" output_stream: "sum" }"#,
    );
    push(&handle, "in", 0, 0_i64);
    let why = ask(&mut session);
    assert_eq!(
        chain(&why),
        [
            "`CountCalculator` waits for room in the queue of stream `n` at `AddCalculator`, full with 2 packets",
            "`AddCalculator` waits for stream `slow` from `NeverCalculator`, on which nothing came yet; 2 packets wait with it, the first at 0",
            "`NeverCalculator` is in an async call that is pending",
        ]
    );
    let root = why.roots().next().expect("one root");
    assert!(root.since.is_some(), "the call has begun some time ago");
}

#[test]
fn on_a_side_packet() {
    let (mut session, handle) = start(
        r#"input_stream: "in" input_stream: "value" output_stream: "out"
        node { calculator: "MakeSideCalculator" input_stream: "IN:value" output_side_packet: "OUT:s" }
        node { calculator: "FromSideCalculator" input_stream: "in" input_side_packet: "VALUE:s" output_stream: "out" }"#,
    );
    push(&handle, "in", 0, 0_i64);
    assert_eq!(
        chain(&ask(&mut session)),
        [
            "`FromSideCalculator` waits for side packet `s` from `MakeSideCalculator`",
            "`MakeSideCalculator` waits for graph input `value`, on which nothing came yet; it is not closed",
        ]
    );
    handle.close("value").expect("it is an input");
    assert_eq!(
        chain(&ask(&mut session)),
        [
            "`FromSideCalculator` waits for side packet `s` from `MakeSideCalculator`",
            "`MakeSideCalculator` is closed and has not set side packet `s`",
        ]
    );
}

#[test]
fn as_text_and_as_json() {
    let (mut session, handle) = start(
        r#"input_stream: "in" input_stream: "more" output_stream: "sum"
        node { name: "never" calculator: "AddCalculator" input_stream: "more" output_stream: "slow" }
        node { name: "sum" calculator: "AddCalculator" input_stream: "in" input_stream: "slow" output_stream: "sum" }"#,
    );
    push(&handle, "in", 4, 0_i64);
    let why = ask(&mut session);
    insta::assert_snapshot!(why.to_string());
    insta::assert_snapshot!(serde_json::to_string_pretty(&why).expect("it serializes"));
    drop(handle);
    assert!(matches!(
        Pin::new(&mut session).poll(&mut Context::from_waker(Waker::noop())),
        Poll::Ready(Err(_))
    ));
    assert_eq!(session.why().to_string(), "the session has ended");
}
