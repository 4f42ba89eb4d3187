//! Receivers that wait for an engine, stored outside its thread: if the thread is dead or hangs,
//! another thread notifies them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::panics::catch;
use crate::debug::show_fields;
use crate::lock::lock;
use crate::protocol::{FinishReason, GenerationError, StepOutput, StepSink, Usage};

/// The waiting receivers of an engine, by number. They change when a request begins and when it
/// ends. No bound is needed: each entry belongs to a request that the engine's queue has counted,
/// and is removed with it.
pub(crate) struct Live<R>(Mutex<LiveState<R>>);

/// The waiting receivers, or the reason why none can be added any more.
type LiveState<R> = Result<FxHashMap<u64, R>, GenerationError>;

impl<R> Live<R> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Ok(FxHashMap::default())))
    }

    /// Adds a receiver, which stays until the seat is dropped.
    ///
    /// # Errors
    /// The reason, if the engine was abandoned.
    pub(crate) fn enter(self: &Arc<Self>, number: u64, who: R) -> Result<Seat<R>, GenerationError> {
        let mut state = lock(&self.0);
        let waiting = state.as_mut().map_err(|why| why.clone())?;
        waiting.insert(number, who);
        Ok(Seat {
            number,
            live: Arc::clone(self),
        })
    }

    /// Refuses further receivers, and returns the waiting ones.
    pub(crate) fn close(&self, why: &GenerationError) -> Vec<R> {
        let mut state = lock(&self.0);
        let Ok(waiting) = &mut *state else {
            return Vec::new();
        };
        let waiting = std::mem::take(waiting);
        *state = Err(why.clone());
        waiting.into_values().collect()
    }
}

/// Place of a waiting receiver. Dropping it removes the receiver.
pub(crate) struct Seat<R> {
    /// Number that identifies the receiver.
    pub(super) number: u64,
    live: Arc<Live<R>>,
}

impl<R> Drop for Seat<R> {
    fn drop(&mut self) {
        if let Ok(waiting) = &mut *lock(&self.live.0) {
            waiting.remove(&self.number);
        }
    }
}

show_fields!(Live<R> {});
show_fields!(Seat<R> { number });

/// A sink that ends once. Outputs of an abandoned engine after the end are dropped.
pub(crate) struct OutputReceiver {
    sink: Arc<dyn StepSink>,
    ended: AtomicBool,
}

impl OutputReceiver {
    pub(crate) fn new(sink: Arc<dyn StepSink>) -> Self {
        Self {
            sink,
            ended: AtomicBool::new(false),
        }
    }

    /// Ends with an error. Returns false if it had ended before.
    pub(crate) fn fail(&self, why: &GenerationError) -> bool {
        let open = !self.ended.swap(true, Ordering::Relaxed);
        if open {
            let finish = FinishReason::Error(why.clone());
            let output = StepOutput::empty(Some(finish), Usage::default(), Instant::now());
            // A panic must not keep the others from being notified.
            if let Err(message) = catch(|| self.sink.deliver(output)) {
                tracing::error!(%message, "a receiver of generated tokens panicked");
            }
        }
        open
    }
}

impl StepSink for OutputReceiver {
    fn deliver(&self, output: StepOutput) {
        // Only this flag decides which output is the last; no other memory depends on it.
        let had_ended = if output.finish.is_some() {
            self.ended.swap(true, Ordering::Relaxed)
        } else {
            self.ended.load(Ordering::Relaxed)
        };
        if !had_ended {
            self.sink.deliver(output);
        }
    }
}

show_fields!(OutputReceiver {});

/// The receiver of one result or error.
type Once<T> = Box<dyn FnOnce(Result<T, GenerationError>) + Send>;

/// A receiver of one result that is called at most once.
pub(crate) struct Waiter<T>(Mutex<Option<Once<T>>>);

impl<T> Waiter<T> {
    pub(crate) fn new(who: Once<T>) -> Self {
        Self(Mutex::new(Some(who)))
    }

    /// Delivers the result, unless one was delivered before.
    pub(crate) fn tell(&self, result: Result<T, GenerationError>) {
        let taken = lock(&self.0).take();
        if let Some(who) = taken
            && let Err(message) = catch(|| who(result))
        {
            tracing::error!(%message, "a receiver of a result panicked");
        }
    }
}

show_fields!(Waiter<T> {});
