//! How other code reaches a node of a running session: holds keep it open, event senders send it
//! events.
//!
//! Events are not bounded here: a node that hands out a sender also grants the credit to use it.

use std::{any::Any, marker::PhantomData, sync::Arc, task::Waker};

use crate::{input::Event, port::Events};

/// "This node may still emit": while one exists, its node is not closed and its session does not
/// end. Dropping the last clone gives that up.
#[derive(Clone)]
pub struct Hold(pub(crate) Arc<dyn Held>);

/// A node of a running session, as the outside sees it. The session is told when it is dropped.
pub(crate) trait Held: Send + Sync {
    /// Its number.
    fn node(&self) -> u16;

    /// Puts down a thing for an event port. Dropping the answer wakes the session.
    fn post(&self, event: Event) -> Result<Wake, SessionEnded>;
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hold(node {})", self.0.node())
    }
}

/// Sends things to one event port of one node, from any thread, without ever blocking. Holds the
/// node open.
pub struct EventSender<T> {
    hold: Hold,
    port: Events<T>,
    of: PhantomData<fn(T)>,
}

impl<T> Clone for EventSender<T> {
    fn clone(&self) -> Self {
        Self {
            hold: self.hold.clone(),
            port: self.port,
            of: PhantomData,
        }
    }
}

impl<T: Any + Send> EventSender<T> {
    pub(crate) fn new(hold: Hold, port: Events<T>) -> Self {
        Self {
            hold,
            port,
            of: PhantomData,
        }
    }

    /// Delivers one thing and wakes the session, unless it is awake.
    pub fn send(&self, value: T) -> Result<(), SessionEnded> {
        self.post(value).map(drop)
    }

    /// Delivers one thing; the session is woken when the answer is dropped. A thread that serves
    /// many sessions collects the answers of a batch and drops them together.
    pub fn post(&self, value: T) -> Result<Wake, SessionEnded> {
        let port = self.port.index().expect("event ports are always connected") as u16;
        let value = Box::new(value);
        self.hold.0.post(Event { port, value })
    }
}

impl<T> std::fmt::Debug for EventSender<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EventSender(node {})", self.hold.0.node())
    }
}

/// Wakes a session when it is dropped, if it has to be woken.
#[derive(Debug, Default)]
#[must_use = "dropping it wakes the session"]
pub struct Wake(pub(crate) Option<Waker>);

impl Drop for Wake {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }
}

/// The session this was for has ended; what was sent is dropped.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended")]
pub struct SessionEnded;
