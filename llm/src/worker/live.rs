//! The receivers that wait for an engine, kept outside of its thread: when the thread is dead or
//! hangs, another thread notifies them.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustc_hash::FxBuildHasher;

use super::panics::catch;
use crate::protocol::{FinishReason, GenerationError, StepOutput, StepSink, Tokens, Usage};

/// The waiting receivers of an engine, by number. Changed when a request begins and when it ends,
/// not in between. It needs no bound of its own: each entry belongs to a request that the engine's
/// queue has counted, and is removed with it.
pub(crate) struct Live<R>(Mutex<Content<R>>);

struct Content<R> {
    waiting: HashMap<u64, R, FxBuildHasher>,
    /// Why no receiver can be added any more.
    closed: Option<GenerationError>,
}

impl<R> Live<R> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Content {
            waiting: HashMap::default(),
            closed: None,
        }))
    }

    /// Adds a receiver, for as long as the seat exists.
    ///
    /// # Errors
    /// Why the engine was given up, if it was.
    pub(crate) fn enter(self: &Arc<Self>, number: u64, who: R) -> Result<Seat<R>, GenerationError> {
        let mut content = self.lock();
        if let Some(why) = &content.closed {
            return Err(why.clone());
        }
        content.waiting.insert(number, who);
        Ok(Seat {
            number,
            live: Arc::clone(self),
        })
    }

    /// Closes the table, and returns the waiting receivers.
    pub(crate) fn close(&self, why: &GenerationError) -> Vec<R> {
        let mut content = self.lock();
        content.closed.get_or_insert_with(|| why.clone());
        content.waiting.drain().map(|(_, who)| who).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Content<R>> {
        // No code that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among those who wait. Dropping it leaves them.
pub(crate) struct Seat<R> {
    number: u64,
    live: Arc<Live<R>>,
}

impl<R> Seat<R> {
    /// By which its owner is known.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl<R> Drop for Seat<R> {
    fn drop(&mut self) {
        self.live.lock().waiting.remove(&self.number);
    }
}

impl<R> fmt::Debug for Live<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

/// A sink that ends once: what comes after the end, from an engine that was given up, goes nowhere.
pub(crate) struct OutputReceiver {
    sink: Box<dyn StepSink>,
    ended: AtomicBool,
}

impl OutputReceiver {
    pub(crate) fn new(sink: Box<dyn StepSink>) -> Self {
        Self {
            sink,
            ended: AtomicBool::new(false),
        }
    }

    /// Ends with an error; false if it had ended.
    pub(crate) fn fail(&self, why: &GenerationError) -> bool {
        let open = !self.ended.swap(true, Ordering::Relaxed);
        if open {
            let output = StepOutput {
                tokens: Tokens::new(),
                end_token: None,
                logprobs: Vec::new(),
                prompt_logprobs: None,
                finish: Some(FinishReason::Error(why.clone())),
                usage: Usage::default(),
                at: Instant::now(),
            };
            // The others are to be told, too.
            if let Err(message) = catch(|| self.sink.deliver(output)) {
                tracing::error!(%message, "a receiver of generated tokens panicked");
            }
        }
        open
    }
}

impl StepSink for OutputReceiver {
    fn deliver(&self, output: StepOutput) {
        // The flag alone decides which output ends it; no other memory depends on it.
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

impl fmt::Debug for OutputReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputReceiver").finish_non_exhaustive()
    }
}

/// The receiver of one result, or of the reason why there is none.
type Once<T> = Box<dyn FnOnce(Result<T, GenerationError>) + Send>;

/// A receiver of one result, which is called once.
pub(crate) struct Waiter<T>(Mutex<Option<Once<T>>>);

impl<T> Waiter<T> {
    pub(crate) fn new(who: Once<T>) -> Self {
        Self(Mutex::new(Some(who)))
    }

    /// Tells the result; false if one was told before.
    pub(crate) fn tell(&self, result: Result<T, GenerationError>) -> bool {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match taken {
            Some(who) => {
                if let Err(message) = catch(|| who(result)) {
                    tracing::error!(%message, "a receiver of a result panicked");
                }
                true
            }
            None => false,
        }
    }
}

impl<T> fmt::Debug for Waiter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").finish_non_exhaustive()
    }
}
