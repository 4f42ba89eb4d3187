//! Sessions in a program that is not async.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use graphmill_engine::{
    Error, Handle, Kind, Packet, Plan, RunCx, Session, SidePackets, Timestamp, block_on,
    block_on_for,
};

use crate::engine::nodes::run;

/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_mins(1);

const ADD: &str = r#"
    input_stream: "a" input_stream: "b" output_stream: "sum"
    node { calculator: "AddCalculator" input_stream: "a" input_stream: "b" output_stream: "sum" }"#;

fn start(plan: &Arc<Plan>) -> (Session, Handle) {
    Session::new(plan, RunCx::new("embedded"), SidePackets::new()).expect("starts")
}

fn push(handle: &Handle, stream: &str, time: i64, value: i64) {
    block_on(handle.push(stream, Packet::new(time, value))).expect("the session lives");
}

#[test]
fn a_session_on_a_thread_is_fed_and_read_by_another() {
    let (session, handle) = start(run(ADD).plan());
    let mut sums = handle.output("sum").expect("an output");
    session.run_on_thread().expect("a thread");
    for time in 0..1000 {
        push(&handle, "a", time, time);
        push(&handle, "b", time, 1);
        let sum = block_on_for(sums.next(), PATIENCE).expect("in time");
        assert_eq!(sum.and_then(Packet::into_value::<i64>), Some(time + 1));
    }
    handle.close_all();
    assert!(
        block_on_for(sums.next(), PATIENCE)
            .expect("in time")
            .is_none()
    );
    let summary = block_on(handle.outcome()).expect("no error");
    assert_eq!(summary.nodes().map(|node| node.runs).sum::<u64>(), 1001);
}

#[test]
fn a_reader_waits_no_longer_than_it_wants() {
    let (session, handle) = start(run(ADD).plan());
    let mut sums = handle.output("sum").expect("an output");
    session.run_on_thread().expect("a thread");
    push(&handle, "a", 1, 1);
    assert!(block_on_for(sums.next(), Duration::from_millis(1)).is_none());
    push(&handle, "b", 1, 1);
    assert!(block_on_for(sums.next(), PATIENCE).is_some());
}

#[test]
fn a_session_is_run_step_by_step() {
    let (mut session, handle) = start(run(ADD).plan());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let record = move |time: Timestamp, packet: Option<&Packet>| {
        let value = packet.and_then(|packet| packet.get::<i64>()).copied();
        log.lock().expect("no panic").push((time.value(), value));
        Ok(())
    };
    session.observe("sum", false, record).expect("a stream");
    for time in 1..=3 {
        push(&handle, "a", time, time);
        assert!(session.run_until_idle().expect("no error").is_none());
        assert_eq!(seen.lock().expect("no panic").len() as i64, time - 1);
        push(&handle, "b", time, 10);
        assert!(session.run_until_idle().expect("no error").is_none());
        assert_eq!(
            seen.lock().expect("no panic").last(),
            Some(&(time, Some(time + 10)))
        );
    }
    handle.close_all();
    assert!(session.run_until_idle().expect("no error").is_some());
    let again = session.run_until_idle().expect_err("it has ended");
    assert_eq!(again.kind, Kind::FailedPrecondition);
}

#[test]
fn idle_is_when_all_that_was_pushed_is_worked_off() {
    let text = r#"
        executor { name: "two" type: "ThreadPoolExecutor" options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } } }
        node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "x" executor: "two" }
        node { calculator: "AddCalculator" input_stream: "x" output_stream: "out" }"#;
    let (mut session, handle) = start(run(text).plan());
    let sums = Arc::new(Mutex::new(0));
    let log = Arc::clone(&sums);
    let count = move |_: Timestamp, _: Option<&Packet>| {
        *log.lock().expect("no panic") += 1;
        Ok(())
    };
    session.observe("out", false, count).expect("a stream");
    session.run_on_thread().expect("a thread");
    for time in 1..=50 {
        push(&handle, "in", time, time);
        block_on(handle.wait_until_idle()).expect("no error");
        assert_eq!(*sums.lock().expect("no panic"), time);
    }
    handle.close_all();
    block_on(handle.outcome()).expect("no error");
    block_on(handle.wait_until_idle()).expect("no error");
}

#[test]
fn what_is_kept_for_packets_is_dropped_when_their_node_takes_them() {
    let (mut session, handle) = start(run(ADD).plan());
    // Nobody reads it.
    let _sums = handle.output("sum").expect("an output");
    let kept = Arc::new(());
    let users = || Arc::strong_count(&kept) - 1;
    for time in 1..=3 {
        push(&handle, "a", time, time);
        let at = Timestamp::new(time);
        let keep = handle.keep_until_taken("a", at, Arc::clone(&kept));
        keep.expect("the session lives");
    }
    for time in 1..=3 {
        assert!(session.run_until_idle().expect("no error").is_none());
        assert_eq!(users(), 4 - time as usize);
        push(&handle, "b", time, 1);
    }
    assert!(session.run_until_idle().expect("no error").is_none());
    assert_eq!(users(), 0);
    push(&handle, "a", 4, 4);
    let keep = handle.keep_until_taken("a", Timestamp::new(4), Arc::clone(&kept));
    keep.expect("the session lives");
    drop(session);
    assert_eq!(users(), 0);
}

#[test]
fn whoever_waits_for_idle_learns_that_the_session_failed() {
    let plan = run(
        r#"node { calculator: "FailCalculator" input_stream: "in" output_stream: "out" options { [FailCalculatorOptions.ext] { at: "process" } } }"#,
    );
    let (session, handle) = start(plan.plan());
    session.run_on_thread().expect("a thread");
    push(&handle, "in", 1, 13);
    let error = block_on(handle.wait_until_idle()).expect_err("it fails");
    assert_eq!(error.message, "thirteen is refused");
    let error = block_on(handle.push("in", Packet::new(2, 1_i64))).expect_err("it has failed");
    assert_eq!(error.message, "thirteen is refused");
    assert!(block_on(handle.outcome()).is_err());
}

#[test]
fn an_observer_that_fails_ends_the_session() {
    let (mut session, handle) = start(run(ADD).plan());
    let mut left = 5;
    let limited = move |_: Timestamp, _: Option<&Packet>| {
        left -= 1;
        if left < 0 {
            return Err(Error::exhausted("five are enough"));
        }
        Ok(())
    };
    session.observe("sum", false, limited).expect("a stream");
    for time in 1..=8 {
        push(&handle, "a", time, 1);
        push(&handle, "b", time, 1);
    }
    let error = session.run_until_idle().expect_err("the sixth is refused");
    assert_eq!(error.message, "five are enough");
}

#[test]
fn streams_that_do_not_exist_are_named() {
    let (mut session, handle) = start(run(ADD).plan());
    let ignore = |_: Timestamp, _: Option<&Packet>| Ok(());
    let packet = || Packet::new(1, 1_i64);
    let errors = [
        session
            .observe("nothing", false, ignore)
            .expect_err("unknown"),
        handle.output("nothing").expect_err("unknown"),
        block_on(handle.push("nothing", packet())).expect_err("unknown"),
        handle.try_push("sum", packet()).expect_err("no input"),
        handle.close("nothing").expect_err("unknown"),
        handle.side_packet("nothing").expect_err("unknown"),
    ];
    for error in errors {
        assert_eq!(error.kind, Kind::NotFound);
        assert!(error.message.contains("`nothing`") || error.message.contains("`sum`"));
    }
}

#[test]
fn closing_twice_does_nothing() {
    let (mut session, handle) = start(run(ADD).plan());
    handle.close("a").expect("an input");
    handle.close("a").expect("closing again is fine");
    handle.close_all();
    assert!(session.run_until_idle().expect("no error").is_some());
    assert!(handle.close("b").is_ok());
}

#[test]
fn a_packet_for_a_closed_input_that_a_node_still_reads_fails_the_session() {
    let (mut session, handle) = start(run(ADD).plan());
    handle.close("a").expect("an input");
    push(&handle, "a", 1, 1);
    let error = session.run_until_idle().expect_err("it is closed");
    assert_eq!(error.kind, Kind::FailedPrecondition);
    assert!(error.message.contains("closed stream `a`"), "{error}");
}

#[test]
fn packets_wait_for_the_start() {
    let (mut session, handle) = start(run(ADD).plan());
    let mut sums = handle.output("sum").expect("an output");
    push(&handle, "a", 1, 1);
    push(&handle, "b", 1, 2);
    assert!(sums.try_next().is_none());
    assert!(session.run_until_idle().expect("no error").is_none());
    let sum = sums.try_next().and_then(Packet::into_value::<i64>);
    assert_eq!(sum, Some(3));
    let late = handle.output("sum").expect_err("too late");
    assert_eq!(late.kind, Kind::FailedPrecondition);
}

#[test]
fn cancelling_ends_a_session_whose_inputs_are_open() {
    let (session, handle) = start(run(ADD).plan());
    session.run_on_thread().expect("a thread");
    handle.cancel();
    let error = block_on(handle.outcome()).expect_err("it was cancelled");
    assert_eq!(error.kind, Kind::Cancelled);
}

#[test]
fn stopping_ends_a_session_whose_sources_never_do() {
    let text = format!(
        r#"input_stream: "in" output_stream: "out"
           node {{ calculator: "CountCalculator" output_stream: "out" options {{ [CountCalculatorOptions.ext] {{ to: {} }} }} }}
           node {{ calculator: "PassThroughCalculator" input_stream: "in" output_stream: "rest" }}"#,
        i64::MAX
    );
    let (mut session, handle) = start(run(&text).plan());
    let (eighth, reached) = std::sync::mpsc::channel();
    let tell = move |time: Timestamp, _: Option<&Packet>| {
        if time == Timestamp::new(8) {
            eighth.send(()).expect("the test waits");
        }
        Ok(())
    };
    session.observe("out", false, tell).expect("a stream");
    session.run_on_thread().expect("a thread");
    reached.recv_timeout(PATIENCE).expect("in time");
    handle.stop();
    block_on(handle.outcome()).expect("no error");
    handle.stop();
}

#[test]
fn a_runtime_is_not_blocked() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime starts");
    let (session, _handle) = start(run(ADD).plan());
    let error = runtime
        .block_on(async { session.run() })
        .expect_err("refused");
    assert_eq!(error.kind, Kind::FailedPrecondition);
}
