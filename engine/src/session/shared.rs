//! Where a session meets other threads: its inbox and its waker, behind one lock that is never held while user code runs.
//!
//! A message is pushed and the waker taken in one critical section, and the session goes to sleep only in a critical
//! section in which the inbox is empty; so no wake-up is lost, and a session that is awake is not woken again.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

use crate::{
    events::{SessionEnded, Wake},
    input::Event,
    run::RunCx,
};

/// What the outside tells a session.
pub(crate) enum Message {
    /// A thing for an event port of a node.
    Event { node: u16, event: Event },
    /// A hold on a node was dropped.
    Released { node: u16 },
}

/// The part of a session that other threads can reach.
pub(crate) struct Shared {
    pub(crate) run: Arc<RunCx>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    inbox: VecDeque<Message>,
    waker: Option<Waker>,
    ended: bool,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message into the inbox. Dropping the answer wakes the session.
    pub(crate) fn send(&self, message: Message) -> Result<Wake, SessionEnded> {
        let mut state = self.lock();
        if state.ended {
            return Err(SessionEnded);
        }
        state.inbox.push_back(message);
        Ok(Wake(state.waker.take()))
    }
}
