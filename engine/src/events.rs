//! Access to a node of a running session from outside: holds keep the node open, event senders send
//! it events.
//!
//! The number of events is not bounded here. A node that hands out a sender limits its use.

use std::{any::Any, marker::PhantomData, sync::Arc, task::Waker};

use crate::{input::Event, port::Events};

/// Keeps a node and its session open. Release it by dropping the last clone.
#[derive(Clone)]
pub struct Hold(pub(crate) Arc<dyn Held>);

/// A node of a running session, as seen from outside. Dropping it notifies the session.
pub(crate) trait Held: Send + Sync {
    /// Position of the node in its plan.
    fn node(&self) -> u16;

    /// Queues an event for an event port. Dropping the result wakes the session.
    fn post(&self, event: Event) -> Result<Wake, SessionEnded>;
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hold(node {})", self.0.node())
    }
}

/// Sends values to one event port of one node, from any thread, without blocking. Keeps the node
/// open.
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

    /// Sends one value and wakes the session.
    pub fn send(&self, value: T) -> Result<(), SessionEnded> {
        self.post(value).map(drop)
    }

    /// Sends one value. The session wakes when the result is dropped. A thread that serves many
    /// sessions collects the results of a batch and drops them together.
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

/// Wakes a session on drop, if the session has to be woken.
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

/// The session has ended, and the value that was sent is dropped.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended")]
pub struct SessionEnded;
