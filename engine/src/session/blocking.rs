//! Sessions in programs that are not async: run on the calling thread or one of their own, waited
//! for by blocking.

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
    /// Runs the session on the calling thread until it ends. Inside a runtime it is spawned or
    /// awaited instead.
    pub fn run(self) -> Result<Summary> {
        runtime()?.block_on(self)
    }

    /// Runs the session on a thread of its own. How it ends is learned from its handle.
    pub fn run_on_thread(self) -> Result<()> {
        let thread = std::thread::Builder::new().name("graphmill-session".to_owned());
        // The handle has the outcome, and also if there is no runtime to be had: the session is
        // dropped then.
        let started = thread.spawn(move || drop(self.run()));
        started.map(drop).map_err(|error| {
            Error::unavailable("no thread can be started for the session").with_source(error)
        })
    }

    /// Runs the session on the calling thread for as long as it has something to do: until it has
    /// ended, with its summary, or until no call is under way and nothing can happen before the
    /// outside acts. For programs that push, run and look at what came, step by step.
    pub fn run_until_idle(&mut self) -> Result<Option<Summary>> {
        let runtime = runtime()?;
        let (answer, mut idle) = oneshot::channel();
        self.running.tell_when_idle(answer);
        runtime.block_on(poll_fn(|cx| match Pin::new(&mut *self).poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(outcome.map(Some)),
            Poll::Pending if idle.try_recv().is_ok() => Poll::Ready(Ok(None)),
            Poll::Pending => Poll::Pending,
        }))
    }
}

/// A runtime for one thread, which sessions need for timers only.
fn runtime() -> Result<tokio::runtime::Runtime> {
    if tokio::runtime::Handle::try_current().is_ok() {
        return Err(Error::precondition(
            "a session cannot block a thread of an async runtime; spawn or await it",
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.map_err(|error| Error::unavailable("no timer can be made").with_source(error))
}

/// Waits for a future on the calling thread: for what a session's [`Handle`](super::Handle) and
/// [`OutputStream`](super::OutputStream) promise, in a program that is not async.
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

/// Waits for a future on the calling thread, but not longer than `patience`; none if it takes
/// longer.
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

/// Wakes a thread that is parked.
struct Wakes(Unparker);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn waker(parker: &Parker) -> Waker {
    Waker::from(Arc::new(Wakes(parker.unparker().clone())))
}
