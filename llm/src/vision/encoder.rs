//! The thread that encodes images and sounds. A projector computes one tile at a time, so one
//! thread does it for all requests, in the order in which they came.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::{io, thread};

use crossbeam_channel::{Receiver, Sender, TrySendError};

use super::medium::Tile;
use crate::protocol::{ErrorKind, GenerationError, SubmitError};
use crate::worker::catch;

/// Maximum number of requests that wait for their media to be encoded: the default limit of the
/// engine's queue. More are refused.
const MAX_WAITING: usize = 1024;

/// Work of a request on the thread, which also delivers the result.
type EncodeWork = Box<dyn FnOnce(&EncodeTurn<'_>) + Send>;

struct EncodeJob {
    work: EncodeWork,
    /// Dead if the request was dropped; true once its turn has come.
    wanted: Weak<AtomicBool>,
}

/// The turn of a request on the thread.
pub(super) struct EncodeTurn<'a> {
    wanted: &'a Weak<AtomicBool>,
    encoded: &'a AtomicU64,
}

/// Handle of a request that waits for tiles. Dropping it cancels the tiles that are not encoded
/// yet.
#[derive(Debug)]
#[must_use]
pub struct Encoding(Arc<AtomicBool>);

impl Encoding {
    /// Returns true once the request's turn has come.
    pub fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns a function like [`Self::has_begun`] that does not keep the request waiting.
    pub fn watch(&self) -> impl Fn() -> bool + Send + use<> {
        let begun = Arc::downgrade(&self.0);
        move || {
            let begun = begun.upgrade();
            begun.is_some_and(|begun| begun.load(Ordering::Relaxed))
        }
    }
}

/// Handle of the thread, which ends when this is dropped.
pub(super) struct Encoder {
    jobs: Sender<EncodeJob>,
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

    /// Runs `work` when its turn comes, unless the request was dropped by then, and passes its
    /// result to `answer`, unless it was dropped meanwhile.
    pub(super) fn submit<T>(
        &self,
        work: impl FnOnce(&EncodeTurn<'_>) -> T + Send + 'static,
        answer: impl FnOnce(T) + Send + 'static,
    ) -> Result<Encoding, SubmitError> {
        let work = Box::new(move |turn: &EncodeTurn<'_>| {
            let result = work(turn);
            if turn.is_wanted() {
                answer(result);
            }
        });
        let wanted = Arc::<AtomicBool>::default();
        let job = EncodeJob {
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

    /// Number of requests whose turn has not come.
    pub(super) fn waiting(&self) -> usize {
        self.jobs.len()
    }

    /// Number of tiles encoded since the thread was started.
    pub(super) fn encoded(&self) -> u64 {
        self.encoded.load(Ordering::Relaxed)
    }
}

fn serve(inbox: &Receiver<EncodeJob>, encoded: &AtomicU64) {
    for EncodeJob { work, wanted } in inbox {
        let turn = EncodeTurn {
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

impl EncodeTurn<'_> {
    /// Returns true if the request still waits.
    fn is_wanted(&self) -> bool {
        self.wanted.strong_count() > 0
    }

    /// Encodes the tiles that are not encoded yet, as long as the request waits for them.
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
                    return Err(GenerationError::new(
                        ErrorKind::Internal,
                        format!("{what} of the request was not encoded: {why}"),
                    ));
                }
            }
        }
        Ok(())
    }
}
