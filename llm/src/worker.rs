//! The thread of an engine: it opens a model, says that it is ready, serves until it is told to stop, and shows that it is alive.

use std::any::Any;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError};

use crate::protocol::LoadError;

/// How long the end of a thread that was told to stop is waited for. It stops between two steps, which take less on most machines;
/// one that takes longer is left behind, for nothing may keep the process from its end.
const JOIN_PATIENCE: Duration = Duration::from_secs(5);

/// A thread that serves a model.
#[derive(Debug)]
pub(crate) struct Worker {
    thread: Option<JoinHandle<()>>,
    pulse: Arc<Pulse>,
}

/// With what a thread says that its model is loaded.
#[derive(Debug)]
pub(crate) struct Ready<T>(Sender<Result<T, LoadError>>);

/// What a thread shows of itself. The numbers are independent of each other, hence `Relaxed` throughout.
#[derive(Debug)]
pub(crate) struct Pulse {
    started: Instant,
    idle: AtomicBool,
    /// Given up by others: whatever it does is ignored.
    abandoned: AtomicBool,
    beat_micros: AtomicU64,
    /// Beats so far.
    beats: AtomicU64,
    /// Requests that were given to it, and those that it has taken in.
    given: AtomicU64,
    taken: AtomicU64,
    /// Tokens of the step that is computed.
    batch: AtomicU32,
    /// Nothing is ever sent here: it is there until the thread has ended.
    alive: Mutex<Option<Sender<Infallible>>>,
    ended: Receiver<Infallible>,
}

/// A look at a pulse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The thread has ended.
    pub(crate) stopped: bool,
    /// There is nothing to do.
    pub(crate) idle: bool,
    /// Changes whenever the thread does something.
    pub(crate) progress: u64,
    /// Tokens of the step that is computed.
    pub(crate) batch: u32,
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
        let (sender, opened) = crossbeam_channel::bounded(1);
        let to_end = Arc::clone(&pulse);
        let thread = thread::Builder::new().name(name).spawn(move || {
            let ready = Ready(sender.clone());
            let outcome = catch(|| serve(ready))
                .unwrap_or_else(|message| Err(LoadError::Panicked { message }));
            to_end.end();
            if let Err(error) = outcome {
                sender.send(Err(error)).ok(); // nobody waits any more if loading had succeeded
            }
        });
        let thread = thread.map_err(|source| LoadError::Thread { source })?;
        let ended = |_| LoadError::Panicked {
            message: "the engine thread ended while loading".to_owned(),
        };
        let opened = opened.recv().map_err(ended)??;
        let thread = Some(thread);
        Ok((Self { thread, pulse }, opened))
    }

    /// Waits for the end of the thread, which has been told to stop, for a bounded time; not if the thread itself calls this, or was
    /// given up. False if it runs on.
    pub(crate) fn join(&mut self) -> bool {
        let Some(thread) = self.thread.take() else {
            return true;
        };
        if thread.thread().id() == thread::current().id() || self.pulse.abandoned() {
            return false;
        }
        let name = || thread.thread().name().unwrap_or_default().to_owned();
        if self.pulse.ended.recv_timeout(JOIN_PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(thread = name(), "a thread does not end and is left behind");
            return false;
        }
        // A panic of the thread has been reported there.
        thread.join().ok();
        true
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
        let (alive, ended) = crossbeam_channel::bounded(0);
        Self {
            started: Instant::now(),
            idle: AtomicBool::new(true),
            abandoned: AtomicBool::new(false),
            beat_micros: AtomicU64::new(0),
            beats: AtomicU64::new(0),
            given: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            batch: AtomicU32::new(0),
            alive: Mutex::new(Some(alive)),
            ended,
        }
    }

    /// The thread is about to compute so many tokens.
    pub(crate) fn begins(&self, tokens: usize) {
        self.batch.store(tokens as u32, Ordering::Relaxed);
    }

    /// The thread was given a request.
    pub(crate) fn given(&self) {
        self.given.fetch_add(1, Ordering::Relaxed);
    }

    /// The thread has taken a request in.
    pub(crate) fn taken(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// Nobody waits for the thread any more.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    fn abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// What can be seen of the thread now.
    pub(crate) fn look(&self) -> Seen {
        // What was given is read last: work that came in between is seen as not yet taken in.
        let beats = self.beats.load(Ordering::Relaxed);
        let taken = self.taken.load(Ordering::Relaxed);
        let idle = self.idle();
        Seen {
            stopped: self.stopped(),
            idle: idle && taken >= self.given.load(Ordering::Relaxed),
            progress: beats.wrapping_add(taken),
            batch: self.batch.load(Ordering::Relaxed),
        }
    }

    /// The thread ends.
    fn end(&self) {
        self.alive
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }

    /// Disconnected when the thread has ended.
    pub(crate) fn ended(&self) -> &Receiver<Infallible> {
        &self.ended
    }

    /// The thread makes progress, or has nothing to do.
    pub(crate) fn beat(&self, idle: bool) {
        self.idle.store(idle, Ordering::Relaxed);
        let micros = self.started.elapsed().as_micros() as u64;
        self.beat_micros.store(micros, Ordering::Relaxed);
        self.beats.fetch_add(1, Ordering::Relaxed);
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
        self.ended.try_recv() == Err(TryRecvError::Disconnected)
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
