//! Observation of a session from outside. It does not affect the session, or keep it alive.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::{
    error::{Error, Result},
    packet::Packet,
    plan::Plan,
    run::RunCx,
};

use super::{
    message::Message, shared::Shared, timeline::Timeline, view::View, watch::Watcher, why::Why,
};

/// Observes a session. Unlike a [`Handle`](super::Handle), dropping it does not cancel the session.
///
/// The session answers when it is polled, between two calls of nodes. While a node computes in its
/// task it cannot answer, so queries need a time limit; [`inside`](Self::inside) names that node.
#[derive(Clone)]
pub struct Viewer {
    plan: Arc<Plan>,
    shared: Arc<Shared>,
}

impl Viewer {
    pub(super) fn new(plan: &Arc<Plan>, shared: &Arc<Shared>) -> Self {
        Self {
            plan: Arc::clone(plan),
            shared: Arc::clone(shared),
        }
    }

    /// The plan that the session runs.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The request that it works for.
    pub fn run(&self) -> &Arc<RunCx> {
        &self.shared.run
    }

    /// What the session does now; none once it has ended.
    pub async fn look(&self) -> Option<View> {
        self.ask(Message::Look).await?
    }

    /// What the session waits for.
    pub async fn why(&self) -> Why {
        self.ask(Message::Why).await.unwrap_or_else(Why::ended)
    }

    /// What the session did so far; none once it has ended, or where it keeps no timeline.
    pub async fn timeline(&self) -> Option<Timeline> {
        self.ask(Message::Timeline).await?
    }

    /// Calls `sink` from now on with each packet of some streams and the stream's position among
    /// them, until it gives false. It must not block: the session waits for it. Fails if the plan
    /// has not all of the streams.
    pub fn watch(
        &self,
        streams: &[&str],
        sink: impl FnMut(usize, &Packet) -> bool + Send + 'static,
    ) -> Result<()> {
        let watcher = Watcher::new(&self.plan, streams, Box::new(sink))?;
        // Of a session that has ended nothing comes any more.
        drop(self.shared.send(Message::Watch(Box::new(watcher))));
        Ok(())
    }

    /// The node whose call goes on in the session's own task now, by its position in the plan.
    pub fn inside(&self) -> Option<usize> {
        self.shared.inside()
    }

    /// How the session ended, if it has.
    pub fn ended(&self) -> Option<Result<(), Error>> {
        let state = self.shared.lock();
        let outcome = state.outcome.as_ref()?;
        Some(outcome.as_ref().map(|_| ()).map_err(Clone::clone))
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Message) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        drop(self.shared.send(question(answer)).ok()?);
        answered.await.ok()
    }
}

impl std::fmt::Debug for Viewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Viewer")
            .field("request", &self.shared.run.id)
            .finish_non_exhaustive()
    }
}
