//! How a session is driven, and how its packets are waited for.

use std::{
    future::{pending, poll_fn},
    task::Poll,
};

use futures_util::StreamExt as _;
use graphmill_engine::{Error, OutputStream, Packet, Session, Summary};
use tokio::task::JoinHandle;

use crate::errors::{Cause, Failure};

/// What drives a session.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// Polled by the reader of its packets: a one-shot run.
    Reader,
    /// A task of its own.
    Task,
}

/// A session, by what drives it.
pub(crate) enum Driven {
    Here(Box<Session>),
    Apart(JoinHandle<Result<Summary, Error>>),
    /// It has ended, and how has been asked: what it did, if it ended well.
    Ended(Option<Summary>),
}

impl Driven {
    pub(crate) fn new(session: Session, driver: Driver) -> Self {
        match driver {
            Driver::Reader => Self::Here(Box::new(session)),
            Driver::Task => Self::Apart(tokio::spawn(session)),
        }
    }

    /// Resolves when the session has ended, if it is driven here; never if it is not.
    pub(crate) async fn drive(&mut self) -> Result<(), Failure> {
        match self {
            Self::Here(session) => {
                let outcome = session.await;
                self.ends(outcome)
            }
            Self::Apart(_) | Self::Ended(_) => pending().await,
        }
    }

    /// How the session ended. It has closed its outputs, so this is about to be known.
    pub(crate) async fn outcome(&mut self) -> Result<(), Failure> {
        match self {
            Self::Here(_) => self.drive().await,
            Self::Apart(task) => {
                let outcome = task.await;
                let failed = |_| Failure::new(Cause::Panic, "the session failed");
                self.ends(outcome.map_err(failed)?)
            }
            Self::Ended(_) => Ok(()),
        }
    }

    fn ends(&mut self, outcome: Result<Summary, Error>) -> Result<(), Failure> {
        *self = Self::Ended(outcome.as_ref().ok().cloned());
        outcome.map(drop).map_err(Failure::from)
    }

    /// Returns the summary of the session, once it has ended well.
    pub(crate) fn summary(&self) -> Option<&Summary> {
        match self {
            Self::Here(_) | Self::Apart(_) => None,
            Self::Ended(summary) => summary.as_ref(),
        }
    }

    /// Whether the session is known to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Apart(task) => task.is_finished(),
            Self::Ended(_) => true,
        }
    }
}

/// What a graph gives: the position of the output, and the packet.
pub(crate) type Given = (usize, Packet);

/// What the outputs of a session give.
pub(crate) struct Outputs(Vec<Option<OutputStream>>);

impl Outputs {
    pub(crate) fn new(outputs: Vec<Option<OutputStream>>) -> Self {
        Self(outputs)
    }

    /// The next packet of any; none when all have ended.
    pub(crate) async fn next(&mut self) -> Option<Given> {
        poll_fn(|cx| {
            let mut is_over = true;
            for (position, output) in self.0.iter_mut().enumerate() {
                let Some(stream) = output else {
                    continue;
                };
                match stream.poll_next_unpin(cx) {
                    Poll::Ready(Some(packet)) => return Poll::Ready(Some((position, packet))),
                    Poll::Ready(None) => *output = None,
                    Poll::Pending => is_over = false,
                }
            }
            if is_over {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        })
        .await
    }
}
