//! Open sessions for observation by operators: single sessions, totals of a graph, packets, and
//! recordings.
//!
//! A session is added when it is opened, and removed with its answer. It costs nothing else while
//! nobody observes it. Views are queries to the session itself, with a time limit.

mod frames;
mod open;
mod recording_rule;
mod recordings;
mod taps;

use std::{collections::HashMap, sync::Arc};

use graphmill_engine::{Handle, Session, SidePackets};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use frames::{FollowTarget, Frame};
pub(crate) use open::{OpenSession, run_on_thread};
pub(crate) use recording_rule::{RecordingOptions, RecordingRule};
pub(crate) use recordings::{MAX_EVENTS, Recording, trace_events};
pub(crate) use taps::{Tap, TappedPacket, Taps};

use crate::{
    errors::{Cause, Failure, Result},
    servable::Servable,
};

/// Maximum number of concurrent viewers, of figures and of packets: more than look at one server,
/// and few enough that their buffers are small.
const MAX_VIEWERS: usize = 256;

/// Maximum number of concurrent playground runs. Each may keep a core busy, and requests come
/// first.
const MAX_TRIALS: usize = 4;

/// Open sessions, and their observers.
pub(crate) struct Sessions {
    state: Mutex<SessionsState>,
    viewers: Arc<Semaphore>,
    trials: Arc<Semaphore>,
}

#[derive(Default)]
struct SessionsState {
    open: HashMap<Arc<str>, Arc<OpenSession>>,
    taps: Vec<Arc<Tap>>,
    recordings: recordings::Recordings,
    followed: frames::Hubs,
}

/// The request that a session is opened for.
pub(crate) struct About<'a> {
    pub(crate) servable: &'a Servable,
    /// Id of the request, from which the session's id is made.
    pub(crate) request: &'a Arc<str>,
    /// Name of the key; `None` without keys.
    pub(crate) key: Option<&'a Arc<str>>,
    /// Description for people: a path or a protocol.
    pub(crate) label: &'a str,
    pub(crate) sides: &'a SidePackets,
    /// Recording options of the request, if it asks for a recording.
    pub(crate) records: Option<RecordingOptions>,
}

impl Sessions {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            viewers: Arc::new(Semaphore::new(MAX_VIEWERS)),
            trials: Arc::new(Semaphore::new(MAX_TRIALS)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, SessionsState> {
        self.state.lock()
    }

    /// Adds a session that has not started, until the guard is dropped.
    pub(crate) fn enter(
        self: &Arc<Self>,
        session: &mut Session,
        handle: &Handle,
        about: &About<'_>,
    ) -> SessionEntry {
        let mut state = self.lock();
        let id = state.free_id(about.request);
        let open = Arc::new(OpenSession::new(Arc::clone(&id), handle.observer(), about));
        let recording = state.recordings.begin(&open, about);
        let taps = state.taps.iter().filter(|tap| tap.is_for(&open));
        let taps: Vec<Arc<Tap>> = taps.cloned().collect();
        state.open.insert(Arc::clone(&id), open);
        drop(state);
        for tap in taps {
            let (streams, sink) = tap.follow_session(&id, handle.observer().plan());
            // The plan has exactly these streams.
            let _ = session.observe_packets(&streams, sink);
        }
        if let Some(recording) = recording {
            recording.keep(session, about.sides, Arc::clone(self));
        }
        let sessions = Arc::clone(self);
        SessionEntry { sessions, id }
    }

    /// Returns the open session of an id.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<OpenSession>> {
        self.lock().open.get(id).cloned()
    }

    /// Returns all open sessions, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<OpenSession>> {
        let mut all: Vec<_> = self.lock().open.values().cloned().collect();
        all.sort_by_key(|session| session.began);
        all
    }

    /// Reserves a place for a viewer, released on drop.
    pub(crate) fn viewer(&self) -> Result<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.viewers).try_acquire_owned();
        place.map_err(|_| {
            let message = format!("the limit of {MAX_VIEWERS} viewers is reached");
            Failure::new(Cause::QueueFull, message).with_code("too_many_viewers")
        })
    }

    /// Reserves a place for a playground run, released on drop.
    pub(crate) fn trial(&self) -> Result<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.trials).try_acquire_owned();
        place.map_err(|_| {
            let message =
                format!("the limit of {MAX_TRIALS} concurrent playground runs is reached");
            Failure::new(Cause::QueueFull, message).with_code("too_many_trials")
        })
    }
}

impl SessionsState {
    /// Returns the id of the request, or a similar free one, as clients may choose the same id.
    fn free_id(&self, request: &Arc<str>) -> Arc<str> {
        if !self.open.contains_key(request) {
            return Arc::clone(request);
        }
        let mut ids = (2_u64..).map(|number| format!("{request}~{number}"));
        let free = ids.find(|id| !self.open.contains_key(id.as_str()));
        free.unwrap_or_default().into()
    }
}

/// Guard that lists a session until it is dropped.
pub(crate) struct SessionEntry {
    sessions: Arc<Sessions>,
    id: Arc<str>,
}

impl Drop for SessionEntry {
    fn drop(&mut self) {
        let left = self.sessions.lock().open.remove(&self.id);
        // The session's data is dropped after releasing the lock.
        drop(left);
    }
}
