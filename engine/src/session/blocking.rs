//! Sessions in programs that are not async. They run on the calling thread or on their own, and the
//! program waits by blocking.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use crossbeam_utils::sync::{Parker, Unparker};
use tokio::sync::oneshot;

use crate::error::{Error, Result};

use super::{Session, summary::Summary};

impl Session {
    /// Runs the session on the calling thread until it ends. Inside a runtime, spawn or await it
    /// instead.
    pub fn run(self) -> Result<Summary> {
        runtime()?.block_on(self)
    }

    /// Runs the session on its own thread. The handle reports its outcome.
    pub fn run_on_thread(self) -> Result<()> {
        let thread = std::thread::Builder::new().name("graphmill-session".to_owned());
        // The handle reports the outcome, also if there is no runtime: the session is then dropped.
        let started = thread.spawn(move || drop(self.run()));
        started.map(drop).map_err(|error| {
            Error::unavailable("cannot start a thread for the session").with_source(error)
        })
    }

    /// Runs the session on the calling thread until it has ended or waits. Returns its summary if
    /// it has ended. It waits if no call is in progress and only an outside event can make it
    /// continue. Use it in programs that push packets, run, and look at the output step by step.
    pub fn run_until_idle(&mut self) -> Result<Option<Summary>> {
        let runtime = runtime()?;
        let (answer, mut idle) = oneshot::channel();
        self.running.idle_waiters.push((false, answer));
        runtime.block_on(poll_fn(|cx| match Pin::new(&mut *self).poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(outcome.map(Some)),
            Poll::Pending if idle.try_recv().is_ok() => Poll::Ready(Ok(None)),
            Poll::Pending => Poll::Pending,
        }))
    }
}

/// Makes a runtime for one thread. Sessions need it only for timers.
fn runtime() -> Result<tokio::runtime::Runtime> {
    if tokio::runtime::Handle::try_current().is_ok() {
        return Err(Error::precondition(
            "a session cannot block a thread of an async runtime; spawn or await it instead",
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.map_err(|error| Error::unavailable("cannot make a timer").with_source(error))
}

/// Waits for a future on the calling thread. Use it for the futures of a session's
/// [`Handle`](super::Handle) and [`OutputStream`](super::OutputStream) in a program that is not
/// async.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let parker = Parker::new();
    let waker = waker(&parker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        parker.park();
    }
}

/// Waits for a future on the calling thread for at most `patience`. Returns `None` after that.
pub fn block_on_for<F: Future>(future: F, patience: Duration) -> Option<F::Output> {
    let mut future = pin!(future);
    let parker = Parker::new();
    let waker = waker(&parker);
    let begun = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        parker.park_timeout(patience.checked_sub(begun.elapsed())?);
    }
}

/// Waker of a parked thread.
struct Wakes(Unparker);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn waker(parker: &Parker) -> Waker {
    Waker::from(Arc::new(Wakes(parker.unparker().clone())))
}
