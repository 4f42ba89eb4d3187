//! The thread of an engine: it opens a model, says that it is ready, serves until it is told to stop, and shows that it is alive.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::protocol::LoadError;

/// A thread that serves a model.
#[derive(Debug)]
pub(crate) struct Worker(Option<JoinHandle<()>>);

/// With what a thread says that its model is loaded.
#[derive(Debug)]
pub(crate) struct Ready<T>(Sender<Result<T, LoadError>>);

/// What a thread shows of itself. The numbers are independent of each other, hence `Relaxed` throughout.
#[derive(Debug)]
pub(crate) struct Pulse {
    started: Instant,
    idle: AtomicBool,
    stopped: AtomicBool,
    beat_micros: AtomicU64,
}

impl Worker {
    /// Starts a thread and waits until it is ready. `serve` opens the model, tells [`Ready`] what it has opened, and returns when it
    /// has served.
    ///
    /// # Errors
    /// What `serve` returns before it is ready, and that it panicked or that there is no thread.
    pub(crate) fn start<T, F>(
        name: String,
        pulse: Arc<Pulse>,
        serve: F,
    ) -> Result<(Self, T), LoadError>
    where
        T: Send + 'static,
        F: FnOnce(Ready<T>) -> Result<(), LoadError> + Send + 'static,
    {
        let (sender, opened) = mpsc::channel();
        let thread = thread::Builder::new().name(name).spawn(move || {
            let ready = Ready(sender.clone());
            let outcome = catch(|| serve(ready))
                .unwrap_or_else(|message| Err(LoadError::Panicked { message }));
            pulse.stopped.store(true, Ordering::Relaxed);
            if let Err(error) = outcome {
                sender.send(Err(error)).ok(); // nobody waits any more if loading had succeeded
            }
        });
        let thread = thread.map_err(|source| LoadError::Thread { source })?;
        let ended = |_| LoadError::Panicked {
            message: "the engine thread ended while loading".to_owned(),
        };
        let opened = opened.recv().map_err(ended)??;
        Ok((Self(Some(thread)), opened))
    }

    /// Waits for the end of the thread, which has been told to stop; not if the thread itself calls this.
    pub(crate) fn join(&mut self) {
        if let Some(thread) = self.0.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic of the thread has been reported there.
            thread.join().ok();
        }
    }
}

impl<T> Ready<T> {
    /// The model is loaded.
    pub(crate) fn is(&self, opened: T) {
        // The receiver waits in `start` until this message or an error.
        self.0.send(Ok(opened)).ok();
    }
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            idle: AtomicBool::new(true),
            stopped: AtomicBool::new(false),
            beat_micros: AtomicU64::new(0),
        }
    }

    /// The thread makes progress, or has nothing to do.
    pub(crate) fn beat(&self, idle: bool) {
        self.idle.store(idle, Ordering::Relaxed);
        let micros = self.started.elapsed().as_micros() as u64;
        self.beat_micros.store(micros, Ordering::Relaxed);
    }

    /// How long ago it was started.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether it had nothing to do at its last beat.
    pub(crate) fn idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
    }

    /// Whether it has ended.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// When it last said that it makes progress.
    pub(crate) fn last_beat(&self) -> Instant {
        self.started + Duration::from_micros(self.beat_micros.load(Ordering::Relaxed))
    }
}

/// How long an engine has had work without making progress; zero while it is idle.
pub(crate) fn stalled_for(idle: bool, last_heartbeat: Instant) -> Duration {
    if idle {
        Duration::ZERO
    } else {
        last_heartbeat.elapsed()
    }
}

/// Runs `f` and turns a panic into its message.
pub(crate) fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| panic_message(payload.as_ref()))
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a message".to_owned())
}
