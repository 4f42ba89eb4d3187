//! A clock for tests, which moves only when `advance` is called.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
    time::{Duration, Instant},
};

use crate::{lock::lock, run::Clock};

/// A clock that moves only when `advance` is called. Clones share the time.
#[derive(Clone, Debug)]
pub struct VirtualClock(Arc<Mutex<ClockState>>);

#[derive(Debug)]
struct ClockState {
    now: Instant,
    sleepers: Vec<(Instant, Waker)>,
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(ClockState {
            now: Instant::now(),
            sleepers: Vec::new(),
        })))
    }
}

impl VirtualClock {
    /// Moves the clock and wakes the sleeps that have ended.
    pub fn advance(&self, by: Duration) {
        let mut state = lock(&self.0);
        state.now += by;
        let now = state.now;
        let due: Vec<_> = state
            .sleepers
            .extract_if(.., |(at, _)| *at <= now)
            .collect();
        drop(state);
        for (_, waker) in due {
            waker.wake();
        }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        lock(&self.0).now
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = self.clone();
        Box::pin(poll_fn(move |cx| {
            let mut state = lock(&clock.0);
            if state.now >= at {
                return Poll::Ready(());
            }
            state.sleepers.push((at, cx.waker().clone()));
            Poll::Pending
        }))
    }
}
