//! A session that could run for ever lets others have their turn, and stops when it is told to.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use graphmill_engine::{Handle, Kind, Result, RunCx, Session, SidePackets, Summary};

use crate::engine::nodes::run;

/// Never stops by itself.
const ENDLESS: &str = r#"
    node { calculator: "CountCalculator" output_stream: "n"
           node_options { [type.x/CountCalculatorOptions] { to: 9000000000000000000 } } }
    node { calculator: "PassThroughCalculator" input_stream: "n" output_stream: "out" }"#;

#[derive(Default)]
struct Counter(AtomicUsize);

impl Counter {
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// An endless session, and how many packets have come out of it; it is cancelled with packet number
/// `cancel_at`.
fn start(cancel_at: usize) -> (Session, Handle, Arc<Counter>) {
    let plan = run(ENDLESS).plan().clone();
    let context = RunCx::new("x");
    let token = context.cancel.clone();
    let (mut session, handle) = Session::new(&plan, context, SidePackets::new()).expect("starts");
    let seen = Arc::new(Counter::default());
    let counter = Arc::clone(&seen);
    let observer = move |_, _: Option<&_>| {
        if counter.0.fetch_add(1, Ordering::Relaxed) + 1 == cancel_at {
            token.cancel();
        }
        Ok(())
    };
    session.observe("out", false, observer).expect("a stream");
    (session, handle, seen)
}

fn poll(session: &mut Session, woken: &Arc<Counter>) -> Poll<Result<Summary>> {
    let waker = Waker::from(Arc::clone(woken));
    Pin::new(session).poll(&mut Context::from_waker(&waker))
}

#[test]
fn an_endless_session_yields_and_asks_for_another_turn() {
    let (mut session, handle, seen) = start(usize::MAX);
    let woken = Arc::new(Counter::default());
    for turn in 1..=3 {
        let before = seen.get();
        assert!(poll(&mut session, &woken).is_pending());
        assert_eq!(woken.get(), turn, "wake-ups after {turn} turns");
        let packets = seen.get() - before;
        // Two calls bring one packet out.
        assert!(
            (32..=64).contains(&packets),
            "{packets} packets in one turn"
        );
    }
    handle.cancel();
    let Poll::Ready(Err(error)) = poll(&mut session, &woken) else {
        panic!("a cancelled session goes on");
    };
    assert_eq!(error.kind, Kind::Cancelled);
}

#[test]
fn a_session_that_is_cancelled_in_its_turn_calls_nothing_more() {
    let (mut session, _handle, seen) = start(5);
    let woken = Arc::new(Counter::default());
    let Poll::Ready(Err(error)) = poll(&mut session, &woken) else {
        panic!("a cancelled session goes on");
    };
    assert_eq!((error.kind, seen.get()), (Kind::Cancelled, 5));
}
