//! Observation of a session from outside, without affecting it or keeping it alive.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::{
    error::{Error, Result},
    packet::Packet,
    plan::Plan,
    run::RunCx,
};

use super::{
    message::SessionMessage, packet_observer::PacketObserver, shared::SessionState,
    snapshot::Snapshot, timeline::Timeline, why::Why,
};

/// An observer of a session. Unlike with a [`Handle`](super::Handle), dropping it does not cancel
/// the session.
///
/// The session answers when it is polled, between two calls of nodes. It cannot answer while a node
/// computes in its task, so queries need a time limit. [`inside`](Self::inside) names that node.
#[derive(Clone)]
pub struct SessionObserver {
    plan: Arc<Plan>,
    shared: Arc<SessionState>,
}

impl SessionObserver {
    pub(super) fn new(plan: &Arc<Plan>, shared: &Arc<SessionState>) -> Self {
        Self {
            plan: Arc::clone(plan),
            shared: Arc::clone(shared),
        }
    }

    /// Returns the plan that the session runs.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Returns the context of the session's request.
    pub fn run(&self) -> &Arc<RunCx> {
        &self.shared.run
    }

    /// Returns a view of the session; `None` once it has ended.
    pub async fn snapshot(&self) -> Option<Snapshot> {
        self.ask(SessionMessage::Snapshot).await?
    }

    /// Describes the session's current wait.
    pub async fn why(&self) -> Why {
        self.ask(SessionMessage::Why)
            .await
            .unwrap_or_else(Why::ended)
    }

    /// Returns the timeline so far; `None` once the session has ended or if it keeps none.
    pub async fn timeline(&self) -> Option<Timeline> {
        self.ask(SessionMessage::Timeline).await?
    }

    /// Calls `sink` from now on with each packet of some streams and the stream's position among
    /// them, until it returns `false`. It must not block, because the session waits for it. Fails
    /// if the plan lacks one of the streams.
    pub fn observe_packets(
        &self,
        streams: &[&str],
        sink: impl FnMut(usize, &Packet) -> bool + Send + 'static,
    ) -> Result<()> {
        let watcher = PacketObserver::new(&self.plan, streams, Box::new(sink))?;
        // A session that has ended sends no more packets.
        drop(self.shared.send(SessionMessage::Observe(Box::new(watcher))));
        Ok(())
    }

    /// Returns the position of the node whose call runs in the session's own task now.
    pub fn inside(&self) -> Option<usize> {
        self.shared.inside()
    }

    /// Returns the session's outcome, if it has ended.
    pub fn ended(&self) -> Option<Result<(), Error>> {
        let state = self.shared.lock();
        let outcome = state.outcome.as_ref()?;
        Some(outcome.as_ref().map(|_| ()).map_err(Clone::clone))
    }

    async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> SessionMessage,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        drop(self.shared.send(question(answer)).ok()?);
        answered.await.ok()
    }
}

impl std::fmt::Debug for SessionObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionObserver")
            .field("request", &self.shared.run.id)
            .finish_non_exhaustive()
    }
}
