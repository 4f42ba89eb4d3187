//! The end of waiting. What a request waits for is given up at its deadline, and when the server
//! ends running requests. A client that leaves drops the wait itself, with all that works for it.

use std::{future::pending, pin::Pin, time::Instant};

use tokio::{
    sync::watch,
    time::{Sleep, sleep_until},
};

use super::Runner;
use crate::{errors::Failure, stage::Stage};

/// Gives up the waits of a request when it has to end.
pub(crate) struct Guard {
    stage: watch::Receiver<Stage>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Runner {
    /// Guards waits until a deadline, if there is one.
    pub(crate) fn guard(&self, deadline: Option<Instant>) -> Guard {
        Guard {
            stage: self.stage.clone(),
            deadline: deadline.map(|at| Box::pin(sleep_until(at.into()))),
        }
    }
}

impl Guard {
    /// Waits for some work, which is dropped if the request has to end before.
    ///
    /// # Errors
    /// That of the work, or that the server stops, or that the deadline has passed.
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
            // A stop comes first: a client that keeps reading must not hold it up.
            biased;
            // Fails when the server was dropped without a stop, which ends requests too.
            _ = stage.wait_for(|stage| *stage == Stage::Cut) => Err(Failure::stopping()),
            done = work => done,
            () = late => Err(Failure::late()),
        }
    }
}
