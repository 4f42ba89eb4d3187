//! The thread that encodes images and sounds. A projector computes one tile at a time, so one
//! thread does it for all requests, in the order in which they came.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::{io, thread};

use crossbeam_channel::{Receiver, Sender, TrySendError};

use super::medium::Tile;
use crate::protocol::{ErrorKind, GenerationError, SubmitError};
use crate::worker::catch;

/// Requests that wait for their media to be encoded: as many as may wait for the engine, unless a
/// spec says otherwise. More are refused.
const MAX_WAITING: usize = 1024;

/// What a request has the thread do, and how it is told.
type Work = Box<dyn FnOnce(&Turn<'_>) + Send>;

struct Job {
    work: Work,
    /// Dead if nobody waits for it any more; true once its turn has come.
    wanted: Weak<AtomicBool>,
}

/// The turn of a request on the thread.
pub(super) struct Turn<'a> {
    wanted: &'a Weak<AtomicBool>,
    encoded: &'a AtomicU64,
}

/// Somebody waits for tiles. Dropping it ends that: those that are not encoded by then stay so.
#[derive(Debug)]
#[must_use]
pub struct Encoding(Arc<AtomicBool>);

impl Encoding {
    /// Returns true once its turn has come.
    pub fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// [`Self::has_begun`] for others than who waits.
    pub fn watch(&self) -> impl Fn() -> bool + Send + use<> {
        let begun = Arc::downgrade(&self.0);
        move || {
            let begun = begun.upgrade();
            begun.is_some_and(|begun| begun.load(Ordering::Relaxed))
        }
    }
}

/// The outside of the thread, which ends when this is dropped.
pub(super) struct Encoder {
    jobs: Sender<Job>,
    encoded: Arc<AtomicU64>,
}

impl Encoder {
    pub(super) fn start(name: &str) -> io::Result<Self> {
        let (jobs, inbox) = crossbeam_channel::bounded(MAX_WAITING);
        let encoded = Arc::<AtomicU64>::default();
        let count = Arc::clone(&encoded);
        thread::Builder::new()
            .name(format!("images {name}"))
            .spawn(move || serve(&inbox, &count))?;
        Ok(Self { jobs, encoded })
    }

    /// Has `work` done when its turn comes, unless nobody waits for it by then.
    pub(super) fn submit(&self, work: Work) -> Result<Encoding, SubmitError> {
        let wanted = Arc::<AtomicBool>::default();
        let job = Job {
            work,
            wanted: Arc::downgrade(&wanted),
        };
        match self.jobs.try_send(job) {
            Ok(()) => Ok(Encoding(wanted)),
            Err(TrySendError::Full(_)) => Err(SubmitError::QueueFull {
                waiting: MAX_WAITING,
                limit: MAX_WAITING,
            }),
            Err(TrySendError::Disconnected(_)) => Err(SubmitError::Stopped),
        }
    }

    /// Requests whose turn has not come.
    pub(super) fn waiting(&self) -> usize {
        self.jobs.len()
    }

    /// Tiles that were encoded.
    pub(super) fn encoded(&self) -> u64 {
        self.encoded.load(Ordering::Relaxed)
    }
}

fn serve(inbox: &Receiver<Job>, encoded: &AtomicU64) {
    for Job { work, wanted } in inbox {
        let turn = Turn {
            wanted: &wanted,
            encoded,
        };
        if let Some(wanted) = wanted.upgrade() {
            wanted.store(true, Ordering::Relaxed);
            drop(wanted);
            // The receiver may panic, and others still wait.
            catch(|| work(&turn)).ok();
        }
    }
}

impl Turn<'_> {
    /// Whether somebody still waits for what is done.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.strong_count() > 0
    }

    /// Encodes tiles, as far as nobody has, and as long as somebody waits for them.
    pub(super) fn encode<'t>(
        &self,
        tiles: impl IntoIterator<Item = &'t Arc<Tile>>,
    ) -> Result<(), GenerationError> {
        for tile in tiles {
            if !self.is_wanted() {
                break;
            }
            let done = catch(|| tile.encode()).and_then(|encoded| encoded);
            match done {
                Ok(here) => _ = self.encoded.fetch_add(here.into(), Ordering::Relaxed),
                Err(why) => {
                    let what = if tile.is_sound() {
                        "a sound"
                    } else {
                        "an image"
                    };
                    tracing::error!(%why, "{what} was not encoded");
                    return Err(GenerationError {
                        kind: ErrorKind::Internal,
                        message: format!("{what} of the request was not encoded: {why}"),
                    });
                }
            }
        }
        Ok(())
    }
}
