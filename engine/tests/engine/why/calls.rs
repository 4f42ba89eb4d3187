//! Calls that go on or wait for a thread.

use graphmill_engine::{RunCx, Session, SidePackets};

use super::nodes::{BEGUN, END};
use super::{ask, chain, plan, push, start};

#[test]
fn on_a_call_on_an_executor() {
    let (mut session, handle) = start(
        r#"input_stream: "in" output_stream: "a" output_stream: "b"
        node { calculator: "HeavyCalculator" input_stream: "in" output_stream: "slow" executor: "elsewhere" }
        node { calculator: "PassThroughCalculator" input_stream: "in" input_stream: "slow" output_stream: "a" output_stream: "b" }"#,
    );
    push(&handle, "in", 4, 0_i64);
    assert_eq!(
        chain(&ask(&mut session)),
        [
            "`PassThroughCalculator` waits for stream `slow` from `HeavyCalculator`, on which nothing came yet; 1 packet waits with it, at 4",
            "`HeavyCalculator` waits for a free thread on `elsewhere`",
        ]
    );
}

#[test]
fn on_a_call_behind_others_on_an_executor() {
    let text = r#"input_stream: "in" output_stream: "out"
        node { calculator: "HeavyCalculator" input_stream: "in" output_stream: "out" executor: "elsewhere" }"#;
    let plan = plan(text);
    let ask_one_more = || {
        let (mut session, handle) =
            Session::new(&plan, RunCx::new("x"), SidePackets::new()).expect("starts");
        push(&handle, "in", 4, 0_i64);
        let said = chain(&ask(&mut session));
        (session, handle, said)
    };
    let (_first, _handle, said) = ask_one_more();
    assert_eq!(
        said,
        ["`HeavyCalculator` waits for a free thread on `elsewhere`"]
    );
    let (_second, _handle, said) = ask_one_more();
    assert_eq!(
        said,
        ["`HeavyCalculator` waits for a free thread on `elsewhere`, behind 1 of its graph's calls"]
    );
}

#[test]
fn on_a_thread_that_computes() {
    let (mut session, handle) = start(
        r#"input_stream: "in" output_stream: "out" executor { name: "own" type: "ThreadPoolExecutor" options {
             [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 1 } } }
        node { calculator: "GateOfTestCalculator" input_stream: "in" output_stream: "out" executor: "own" }"#,
    );
    push(&handle, "in", 4, 0_i64);
    ask(&mut session);
    BEGUN.wait();
    assert_eq!(
        chain(&ask(&mut session)),
        ["`GateOfTestCalculator` is in a call on `own`"]
    );
    END.wait();
}

#[test]
fn on_what_an_async_call_says_it_waits_for() {
    let (mut session, handle) = start(
        r#"input_stream: "in" output_stream: "out"
        node { calculator: "SaysCalculator" input_stream: "in" output_stream: "out" max_in_flight: 2 }"#,
    );
    push(&handle, "in", 4, 0_i64);
    push(&handle, "in", 5, 0_i64);
    let why = ask(&mut session);
    assert_eq!(
        chain(&why),
        ["`SaysCalculator` waits for letter 4"],
        "the outputs of the first call come first"
    );
    let wait = serde_json::to_value(&why.chains[0][0]).expect("it serializes");
    assert_eq!(
        (&wait["waits_for"], &wait["what"]),
        (&"future".into(), &"letter 4".into())
    );
}
