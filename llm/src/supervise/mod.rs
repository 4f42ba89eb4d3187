//! Replacement of engines that fail.
//!
//! A thread cannot be ended from outside. If an engine's thread is dead, or is stuck in one step,
//! the engine is abandoned instead. Waiting requests get an error, the engine gets no new ones, and
//! another engine is loaded in its place, on the same weights if the file has not changed. The
//! memory of the old thread is freed when it ends, if ever.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, select};
use serde::Serialize;

use crate::embed::{EmbeddingEngine, EmbeddingSpec};
use crate::engine::LlmEngine;
use crate::lock::lock;
use crate::protocol::{ErrorKind, GenerationError, LoadError};
use crate::settings::LlmEngineSpec;
use crate::worker::{Pulse, catch};

mod watch;

use watch::{Attempts, Watch};

/// Time after which a model that is still being reloaded counts as failed.
const LOAD_PATIENCE: Duration = Duration::from_mins(30);

/// An engine that is replaced when it fails. Dropping it stops the engine.
pub struct SupervisedEngine<E>(Arc<Post<E>>);

/// State that an engine's users share with its supervisor.
struct Post<E> {
    /// Nothing is ever sent here. It disconnects when the engine is no longer in use.
    _wanted: Sender<Infallible>,
    engine: ArcSwap<E>,
    record: Mutex<Record>,
}

/// State and failures of an engine so far.
#[derive(Debug)]
struct Record {
    health: Health,
    /// Time at which the state was entered.
    since: Instant,
}

/// State of an engine that is supervised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum LlmEngineState {
    /// The engine is loaded and takes requests.
    Running,
    /// The engine has failed, and another one is about to be loaded in its place.
    Restarting,
    /// The engine has failed, and so has every attempt to replace it. This state is final.
    Failed,
}

/// Health of an engine, for the status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Present state of the engine.
    pub state: LlmEngineState,
    /// Number of times that the engine was replaced.
    pub restarts: u64,
    /// Cause of the last failure; `None` if it never failed.
    pub failure: Option<Arc<str>>,
}

/// An engine that can be replaced.
pub(crate) trait Replaceable: Send + Sync + Sized + 'static {
    /// Returns the name of its model.
    fn model(&self) -> &str;

    /// Returns the time limit of a step in milliseconds; 0 for none.
    fn step_timeout_ms(&self) -> u32;

    /// Returns the signs of life of its thread.
    fn pulse(&self) -> &Arc<Pulse>;

    /// Abandons its thread, which is dead or hangs. Waiting requests end with `why`, and later
    /// outputs of the thread are ignored.
    fn abandon(&self, why: &GenerationError);

    /// Loads the model again, to replace this engine.
    ///
    /// # Errors
    /// As at the first load. Also if the file no longer has what sessions rely on.
    fn load_again(&self) -> Result<Self, LoadError>;
}

impl SupervisedEngine<LlmEngine> {
    /// Loads an engine, as [`LlmEngine::load`] does.
    ///
    /// # Errors
    /// Those of [`LlmEngine::load`].
    pub fn load(spec: LlmEngineSpec) -> Result<Self, LoadError> {
        let restarts = spec.max_engine_restarts;
        supervise(LlmEngine::load(spec)?, restarts)
    }

    /// Supervises an engine that cannot be loaded again: its first failure is final.
    ///
    /// # Errors
    /// [`LoadError::Thread`] if the supervisor's thread cannot be started.
    pub fn once(engine: LlmEngine) -> Result<Self, LoadError> {
        supervise(engine, 0)
    }
}

impl SupervisedEngine<EmbeddingEngine> {
    /// Loads an engine, as [`EmbeddingEngine::load`] does.
    ///
    /// # Errors
    /// Those of [`EmbeddingEngine::load`].
    pub fn load(spec: EmbeddingSpec) -> Result<Self, LoadError> {
        let restarts = spec.max_engine_restarts;
        supervise(EmbeddingEngine::load(spec)?, restarts)
    }

    /// Supervises an engine that cannot be loaded again: its first failure is final.
    ///
    /// # Errors
    /// [`LoadError::Thread`] if the supervisor's thread cannot be started.
    pub fn once(engine: EmbeddingEngine) -> Result<Self, LoadError> {
        supervise(engine, 0)
    }
}

/// Starts the supervision of an engine, which is replaced at most `restarts` times within ten
/// minutes.
fn supervise<E: Replaceable>(engine: E, restarts: u32) -> Result<SupervisedEngine<E>, LoadError> {
    let timeout = engine.step_timeout_ms();
    let (wanted, unwanted) = crossbeam_channel::bounded(0);
    let name = engine.model().to_owned();
    let post = Arc::new(Post {
        _wanted: wanted,
        engine: ArcSwap::from_pointee(engine),
        record: Mutex::new(Record {
            health: Health {
                state: LlmEngineState::Running,
                restarts: 0,
                failure: None,
            },
            since: Instant::now(),
        }),
    });
    let supervisor = Supervisor {
        post: Arc::downgrade(&post),
        unwanted,
        name,
        step_timeout: (timeout > 0).then(|| Duration::from_millis(timeout.into())),
        restarts,
    };
    thread::Builder::new()
        .name("supervise".to_owned())
        .spawn(move || supervisor.run())
        .map_err(|source| LoadError::Thread { source })?;
    Ok(SupervisedEngine(post))
}

impl<E> SupervisedEngine<E> {
    /// Returns the engine that takes requests now, or took them last.
    pub fn current(&self) -> Arc<E> {
        self.0.engine.load_full()
    }

    /// Returns the present health. A reload that takes too long counts as failed.
    pub fn health(&self) -> Health {
        let record = lock(&self.0.record);
        let mut health = record.health.clone();
        if health.state == LlmEngineState::Restarting && record.since.elapsed() >= LOAD_PATIENCE {
            health.state = LlmEngineState::Failed;
        }
        health
    }
}

impl<E> Post<E> {
    fn set_state(&self, state: LlmEngineState, change: impl FnOnce(&mut Health)) {
        let mut record = lock(&self.record);
        record.since = Instant::now();
        record.health.state = state;
        change(&mut record.health);
    }
}

/// The thread that supervises an engine.
struct Supervisor<E> {
    post: Weak<Post<E>>,
    /// Disconnected when the engine is no longer in use.
    unwanted: Receiver<Infallible>,
    name: String,
    /// Time limit for a step; `None` for no limit.
    step_timeout: Option<Duration>,
    /// Maximum number of restarts within ten minutes.
    restarts: u32,
}

impl<E: Replaceable> Supervisor<E> {
    /// Supervises the engine until it is no longer in use, or cannot be replaced.
    fn run(self) {
        let mut attempts = Attempts::new(self.restarts);
        let mut watch = Watch::new(self.step_timeout);
        // No reference is held while waiting, so that the users drop the engine.
        while let Some(post) = self.post.upgrade() {
            let engine = post.engine.load_full();
            drop(post);
            let pulse = Arc::clone(engine.pulse());
            match watch.look(pulse.look(), Instant::now()) {
                None => {
                    drop(engine);
                    select! {
                        recv(pulse.ended()) -> _ => {}
                        recv(self.unwanted) -> _ => return,
                        default(watch.period()) => {}
                    }
                }
                Some(why) => {
                    if !self.replace(&engine, &why, &mut attempts) {
                        return;
                    }
                    watch = Watch::new(self.step_timeout);
                }
            }
        }
    }

    /// Abandons an engine and loads another one in its place. Returns false if no attempt succeeds.
    fn replace(&self, engine: &E, why: &str, attempts: &mut Attempts) -> bool {
        let model = &self.name;
        tracing::error!(%model, "the engine has failed and is abandoned: {why}");
        self.set_state(LlmEngineState::Restarting, why);
        let error = GenerationError::new(
            ErrorKind::Unavailable,
            format!("the engine of `{model}` has failed: {why}"),
        );
        engine.abandon(&error);
        let mut reason = why.to_owned();
        loop {
            let Some(delay) = attempts.next(Instant::now()) else {
                let most = self.restarts;
                tracing::error!(%model, "the engine is not restarted, {most} attempts were made: {reason}");
                self.set_state(LlmEngineState::Failed, &reason);
                return false;
            };
            // Nobody sends anything: the channel disconnects when the engine is no longer in use.
            if self.unwanted.recv_timeout(delay) != Err(RecvTimeoutError::Timeout) {
                return false;
            }
            let started = Instant::now();
            let loaded = catch(|| engine.load_again())
                .unwrap_or_else(|message| Err(LoadError::Panicked { message }));
            match loaded {
                Ok(next) => {
                    // Fails if the engine is no longer in use, which drops the new one.
                    let Some(post) = self.post.upgrade() else {
                        return false;
                    };
                    let before = post.engine.swap(Arc::new(next));
                    post.set_state(LlmEngineState::Running, |health| health.restarts += 1);
                    drop(before);
                    let seconds = started.elapsed().as_secs_f64();
                    tracing::warn!(%model, "the engine was restarted in {seconds:.2} s");
                    return true;
                }
                Err(error) => {
                    reason = format!("it could not be loaded again: {}", with_causes(&error));
                    tracing::error!(%model, "{reason}");
                    self.set_state(LlmEngineState::Restarting, &reason);
                }
            }
        }
    }

    fn set_state(&self, state: LlmEngineState, failure: &str) {
        if let Some(post) = self.post.upgrade() {
            post.set_state(state, |health| health.failure = Some(failure.into()));
        }
    }
}

/// Formats an error and its causes in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}

impl<E> fmt::Debug for SupervisedEngine<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SupervisedEngine")
            .field("record", &*lock(&self.0.record))
            .finish_non_exhaustive()
    }
}
