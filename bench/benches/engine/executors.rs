//! Heavy nodes on an executor: how much faster two threads are than one, within one session.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::{Duration, Instant},
};

use graphmill_bench::{
    graphs::{chain, compile, fan},
    report::{Goal, Report},
    samples::{Samples, nanoseconds},
};
use graphmill_engine::{Packet, Plan, RunCx, Session, SidePackets};

const PACKETS: i64 = 1000;
/// One run is cut into stretches of this many packets, each timed by itself.
const STRETCH: i64 = 25;

pub(crate) fn measure(report: &Report) {
    let pool = |threads: usize| {
        format!(
            "executor {{ name: \"pool\" type: \"ThreadPoolExecutor\" options {{ [mediapipe.ThreadPoolExecutorOptions.ext] {{ num_threads: {threads} }} }} }}\n"
        )
    };
    let on_pool = "executor: \"pool\"";
    let graphs = [
        (
            "two nodes of 1 ms in a row",
            chain("WorkCalculator", 2, on_pool),
        ),
        ("four branches of 1 ms", fan("WorkCalculator", 4, on_pool)),
    ];
    for (what, graph) in graphs {
        let [one, two] = [1, 2].map(|threads| compile(&(pool(threads) + &graph)));
        let (mut with_one, mut with_two) = (Vec::new(), Vec::new());
        for _ in 0..PACKETS / STRETCH {
            with_one.push(nanoseconds(run(&one)) / STRETCH as f64);
            with_two.push(nanoseconds(run(&two)) / STRETCH as f64);
        }
        let (with_one, with_two) = (Samples::new(with_one), Samples::new(with_two));
        for (threads, samples) in [("one thread", &with_one), ("two threads", &with_two)] {
            let what = format!("{what}, {threads}, a packet");
            report.samples(&what, samples, ("ms", 1e6), Goal::None);
        }
        let ratio = with_one.fastest() / with_two.fastest();
        report.number(
            &format!("{what}, two threads to one"),
            ratio,
            "x",
            Goal::AtLeast(1.8),
        );
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// How long a session takes for [`STRETCH`] packets.
fn run(plan: &Arc<Plan>) -> Duration {
    let (session, handle) =
        Session::new(plan, RunCx::new("bench"), SidePackets::new()).expect("starts");
    let begun = Instant::now();
    for time in 0..STRETCH {
        handle
            .try_push("in", Packet::new(time, time))
            .expect("there is room");
    }
    handle.close_all();
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut session = pin!(session);
    loop {
        match session.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => break drop(outcome.expect("nothing fails")),
            Poll::Pending => std::thread::park(),
        }
    }
    begun.elapsed()
}
