//! Guards that end waits of a request: at its deadline, and when the server aborts running
//! requests. If the client leaves, the wait itself is dropped, with everything that works for it.

use std::{future::pending, pin::Pin, time::Instant};

use tokio::{
    sync::watch,
    time::{Sleep, sleep_until},
};

use super::Runner;
use crate::{errors::Failure, shutdown::Stage};

/// A guard for the waits of a request.
pub(crate) struct Guard {
    stage: watch::Receiver<Stage>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Runner {
    /// Creates a guard with a deadline, if there is one.
    pub(crate) fn guard(&self, deadline: Option<Instant>) -> Guard {
        Guard {
            stage: self.stage.clone(),
            deadline: deadline.map(|at| Box::pin(sleep_until(at.into()))),
        }
    }
}

impl Guard {
    /// Waits for some work, which is dropped if the request must end first.
    ///
    /// # Errors
    /// The error of the work, or that the server is stopping, or that the deadline has passed.
    pub(crate) async fn wait<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let Self { stage, deadline } = self;
        let late = async {
            match deadline {
                Some(deadline) => deadline.as_mut().await,
                None => pending().await,
            }
        };
        tokio::select! {
            // The stop is polled first, so that a client that keeps reading cannot delay it.
            biased;
            // Fails if the server was dropped without a stop, which ends requests, too.
            _ = stage.wait_for(|stage| *stage == Stage::Aborting) => Err(Failure::stopping()),
            done = work => done,
            () = late => Err(Failure::late()),
        }
    }
}
