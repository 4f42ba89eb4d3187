//! Handles of sessions: inputs, outputs, cancellation and queries.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use crate::{
    error::{Error, Result},
    events::Wake,
    packet::Packet,
    plan::Plan,
    run::RunCx,
    timestamp::Timestamp,
};

use super::{
    mailbox::PushOutcome, message::SessionMessage, observer::SessionObserver, output::OutputStream,
    shared::SessionState, summary::Summary, why::Why,
};

/// The controls of a session. Dropping the handle cancels the session if it has not ended.
pub struct Handle {
    plan: Arc<Plan>,
    shared: Arc<SessionState>,
}

impl Handle {
    pub(super) fn new(plan: Arc<Plan>, shared: Arc<SessionState>) -> Self {
        Self { plan, shared }
    }

    /// Returns the context of the session's request.
    pub fn run(&self) -> &Arc<RunCx> {
        &self.shared.run
    }

    /// Returns an observer, which does not keep the session from ending.
    pub fn observer(&self) -> SessionObserver {
        SessionObserver::new(&self.plan, &self.shared)
    }

    /// Takes the packets of any stream of the graph, through a queue of [`OutputStream::CAPACITY`]
    /// packets. Packets of streams that nobody takes are discarded. Fails after the first poll of
    /// the session.
    pub fn output(&self, stream: &str) -> Result<OutputStream> {
        let id = self.plan.find_stream(stream)?;
        let mut state = self.shared.lock();
        if state.started {
            let message = format!("output `{stream}` must be taken before the session starts");
            return Err(Error::precondition(message));
        }
        state.outputs.push(id);
        let index = state.exchange.add_output();
        drop(state);
        Ok(OutputStream::new(Arc::clone(&self.shared), index))
    }

    /// Sends a packet to a graph input. Waits while its queues are full.
    ///
    /// Fails if the packet's timestamp is not allowed in a stream, if its type is not the stream's,
    /// which also ends the session, or if the session has ended with an error. A packet for a
    /// closed input ends the session with an error, unless nobody takes packets of this input any
    /// more: then it is dropped.
    pub async fn push(&self, stream: &str, packet: Packet) -> Result<()> {
        let input = self.input(stream)?;
        check_time(stream, packet.time)?;
        let typed = self.check_type(input, &packet);
        let mut packet = Some(packet);
        poll_fn(|cx| match self.send(input, &mut packet, Some(cx)) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        })
        .await?;
        typed
    }

    /// Sends a packet to a graph input like [`push`](Self::push), but fails with `Unavailable` if
    /// its queues are full.
    pub fn try_push(&self, stream: &str, packet: Packet) -> Result<()> {
        let input = self.input(stream)?;
        check_time(stream, packet.time)?;
        let typed = self.check_type(input, &packet);
        if self.send(input, &mut Some(packet), None)? {
            return typed;
        }
        let message = format!("the queues of graph input `{stream}` are full");
        Err(Error::unavailable(message))
    }

    /// Drops `kept` once every node that reads a graph input has taken the packets up to `at` from
    /// its queue, or when the session ends. Readers of the outputs have no influence, unless a full
    /// output keeps a node from taking packets.
    pub fn keep_until_taken(
        &self,
        stream: &str,
        at: Timestamp,
        kept: impl Send + 'static,
    ) -> Result<()> {
        let input = self.input(stream)?;
        let kept = Box::new(kept);
        self.tell(SessionMessage::KeepUntilTaken { input, at, kept })
    }

    /// Promises that no packet before `at` will be sent to a graph input.
    pub fn bound(&self, stream: &str, at: Timestamp) -> Result<()> {
        let input = self.input(stream)?;
        self.tell(SessionMessage::Bound { input, at })
    }

    /// Closes a graph input. Closing it again does nothing.
    pub fn close(&self, stream: &str) -> Result<()> {
        let input = self.input(stream)?;
        self.close_input(input);
        Ok(())
    }

    /// Closes all graph inputs that are still open.
    pub fn close_all(&self) {
        (0..self.plan.graph_inputs.len() as u16).for_each(|input| self.close_input(input));
    }

    /// Closes all graph inputs and all sources. Packets in the graph are still processed, and the
    /// session ends without an error.
    pub fn stop(&self) {
        self.close_all();
        // A session that has ended has no sources left.
        drop(self.shared.send(SessionMessage::StopSources));
    }

    /// Returns a side packet that a node sets. `None` before the node has set it.
    pub fn side_packet(&self, name: &str) -> Result<Option<Packet>> {
        let mut sides = self.plan.sides.iter();
        let Some(id) = sides.position(|side| side.produced && &*side.name == name) else {
            let message = format!("no node of the graph sets the side packet `{name}`");
            return Err(Error::not_found(message));
        };
        let state = self.shared.lock();
        let set = state.sides.iter().find(|(side, _)| *side == id);
        Ok(set.map(|(_, packet)| packet.clone()))
    }

    /// Ends the session with an error of kind `Cancelled`.
    pub fn cancel(&self) {
        self.shared.run.cancel.cancel();
    }

    /// Waits for the end of the session and returns its outcome.
    pub async fn outcome(&self) -> Result<Summary> {
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            if let Some(outcome) = &state.outcome {
                return Poll::Ready(outcome.clone());
            }
            let mut waiters = state.outcome_waiters.iter();
            if !waiters.any(|waker| waker.will_wake(cx.waker())) {
                state.outcome_waiters.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Waits until the session is idle: all packets pushed before have been processed as far as
    /// possible, no call is in progress, and only an outside event can make it continue, such as a
    /// packet of a client, a reader of an output, or an event of a node. Fails if the session has
    /// failed or was cancelled by then.
    pub async fn wait_until_idle(&self) -> Result<()> {
        self.wait_until(false).await
    }

    /// Waits like [`wait_until_idle`](Self::wait_until_idle), and until no node waits for an event,
    /// such as tokens of a language model. If a node is held open for the whole session, this
    /// resolves only at its end.
    pub async fn wait_until_settled(&self) -> Result<()> {
        self.wait_until(true).await
    }

    async fn wait_until(&self, without_events: bool) -> Result<()> {
        let (answer, answered) = oneshot::channel();
        let asked = self.tell(SessionMessage::Idle {
            answer,
            without_events,
        });
        if asked.is_ok() && answered.await.is_ok() {
            return Ok(());
        }
        match &self.shared.lock().outcome {
            Some(Err(error)) => Err(error.clone()),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Describes the session's current wait. The session answers between two calls of nodes.
    pub async fn why(&self) -> Why {
        self.observer().why().await
    }

    fn input(&self, stream: &str) -> Result<u16> {
        let found = self.plan.graph_inputs().position(|name| name == stream);
        found
            .map(|input| input as u16)
            .ok_or_else(|| Error::not_found(format!("`{stream}` is no input stream of the graph")))
    }

    fn check_type(&self, input: u16, packet: &Packet) -> Result<()> {
        let stream = self.plan.graph_inputs[usize::from(input)].stream;
        self.plan.streams[stream as usize].check_type(packet)
    }

    /// Takes the packet and sends it. Returns `false` if there is no room; the task of `cx` is then
    /// woken later.
    fn send(
        &self,
        input: u16,
        packet: &mut Option<Packet>,
        cx: Option<&Context<'_>>,
    ) -> Result<bool> {
        let Some(sent) = packet.take() else {
            return Ok(true);
        };
        let mut state = self.shared.lock();
        if state.exchange.is_closed(usize::from(input)) && matches!(state.outcome, Some(Ok(_))) {
            return Ok(true);
        }
        state.ended()?;
        let message = SessionMessage::Packet {
            input,
            packet: sent,
        };
        let pushed = state.exchange.push(usize::from(input), message, cx);
        drop(state);
        match pushed {
            PushOutcome::Yes(wake) => {
                drop(Wake(wake));
                Ok(true)
            }
            PushOutcome::Full(message) => {
                if let SessionMessage::Packet { packet: back, .. } = message {
                    *packet = Some(back);
                }
                Ok(false)
            }
        }
    }

    fn close_input(&self, input: u16) {
        let mut state = self.shared.lock();
        if state.outcome.is_some() {
            return;
        }
        let message = SessionMessage::CloseInput { input };
        let wake = Wake(state.exchange.close(usize::from(input), message));
        drop(state);
        drop(wake);
    }

    fn tell(&self, message: SessionMessage) -> Result<()> {
        let sent = self.shared.send(message).map(drop);
        sent.or_else(|_| self.shared.lock().ended())
    }
}

fn check_time(stream: &str, time: Timestamp) -> Result<()> {
    if time.is_allowed_in_stream() {
        Ok(())
    } else {
        Err(crate::input::illegal_time(stream, time))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.run.cancel.cancel();
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("request", &self.shared.run.id)
            .finish_non_exhaustive()
    }
}
