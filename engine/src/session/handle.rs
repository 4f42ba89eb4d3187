//! The handle of a session: inputs, outputs, cancellation, queries.

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
    mailbox::Pushed, message::Message, output::OutputStream, shared::Shared, summary::Summary,
    viewer::Viewer, why::Why,
};

/// Talks to a session. Dropping it cancels the session, if it has not ended.
pub struct Handle {
    plan: Arc<Plan>,
    shared: Arc<Shared>,
}

impl Handle {
    pub(super) fn new(plan: Arc<Plan>, shared: Arc<Shared>) -> Self {
        Self { plan, shared }
    }

    /// The request the session works for.
    pub fn run(&self) -> &Arc<RunCx> {
        &self.shared.run
    }

    /// A look into the session that does not keep it from ending.
    pub fn viewer(&self) -> Viewer {
        Viewer::new(&self.plan, &self.shared)
    }

    /// Takes the packets of a stream, of the graph's outputs or any other, through a queue of
    /// [`OutputStream::CAPACITY`] packets. What nobody takes is thrown away. Only before the
    /// session is first polled.
    pub fn output(&self, stream: &str) -> Result<OutputStream> {
        let id = self.plan.find_stream(stream)?;
        let mut state = self.shared.lock();
        if state.started {
            let message = format!("output `{stream}` has to be taken before the session starts");
            return Err(Error::precondition(message));
        }
        state.outputs.push(id);
        let index = state.exchange.add_output();
        drop(state);
        Ok(OutputStream::new(Arc::clone(&self.shared), index))
    }

    /// Sends a packet to a graph input, waiting while its queues are full.
    ///
    /// Fails at once if the packet's timestamp cannot stand in a stream; if its type is not the
    /// stream's, which ends the session too; and if the session has ended with an error. A packet
    /// for a closed input is dropped once nobody takes its packets any more; before, it ends the
    /// session with an error.
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

    /// Sends a packet to a graph input as [`push`](Self::push) does, but fails with `Unavailable`
    /// if its queues are full.
    pub fn try_push(&self, stream: &str, packet: Packet) -> Result<()> {
        let input = self.input(stream)?;
        check_time(stream, packet.time)?;
        let typed = self.check_type(input, &packet);
        if self.send(input, &mut Some(packet), None)? {
            return typed;
        }
        Err(Error::unavailable(format!(
            "the queues of graph input `{stream}` are full"
        )))
    }

    /// Drops `kept` once every node that reads a graph input has taken the packets up to `at` out of
    /// its queue, or when the session ends. What is read of the outputs does not matter, unless a
    /// full output keeps a node from taking packets.
    pub fn keep_until_taken(
        &self,
        stream: &str,
        at: Timestamp,
        kept: impl Send + 'static,
    ) -> Result<()> {
        let input = self.input(stream)?;
        let kept = Box::new(kept);
        self.tell(Message::KeepUntilTaken { input, at, kept })
    }

    /// Says that no packet before `at` will be sent to a graph input.
    pub fn bound(&self, stream: &str, at: Timestamp) -> Result<()> {
        let input = self.input(stream)?;
        self.tell(Message::Bound { input, at })
    }

    /// Closes a graph input. Closing it again does nothing.
    pub fn close(&self, stream: &str) -> Result<()> {
        let input = self.input(stream)?;
        self.close_input(input);
        Ok(())
    }

    /// Closes all graph inputs.
    pub fn close_all(&self) {
        (0..self.plan.graph_inputs.len() as u16).for_each(|input| self.close_input(input));
    }

    /// Closes all graph inputs and all sources: what is under way is worked off, and the session
    /// ends well.
    pub fn stop(&self) {
        self.close_all();
        // A session that has ended has no sources left.
        drop(self.shared.send(Message::StopSources));
    }

    /// A side packet that a node of the graph has set; none while it has not.
    pub fn side_packet(&self, name: &str) -> Result<Option<Packet>> {
        let mut made = self
            .plan
            .sides
            .iter()
            .enumerate()
            .filter(|(_, side)| side.produced);
        let Some((id, _)) = made.find(|(_, side)| &*side.name == name) else {
            return Err(Error::not_found(format!(
                "no node of the graph makes a side packet `{name}`"
            )));
        };
        let state = self.shared.lock();
        let set = state.sides.iter().find(|(side, _)| *side == id);
        Ok(set.map(|(_, packet)| packet.clone()))
    }

    /// Ends the session with an error of kind `Cancelled`.
    pub fn cancel(&self) {
        self.shared.run.cancel.cancel();
    }

    /// How the session ended, once it has.
    pub async fn outcome(&self) -> Result<Summary> {
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            if let Some(outcome) = &state.outcome {
                return Poll::Ready(outcome.clone());
            }
            if !state
                .outcome_waiters
                .iter()
                .any(|waker| waker.will_wake(cx.waker()))
            {
                state.outcome_waiters.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Resolves when the session has nothing to do: all that was pushed before has been worked off
    /// as far as it goes, no call is under way, and nothing can happen before the outside acts, a
    /// client, a reader of an output or an event of a node. An error if the session has failed by
    /// then, also if it was cancelled.
    pub async fn wait_until_idle(&self) -> Result<()> {
        self.wait_until(false).await
    }

    /// As [`wait_until_idle`](Self::wait_until_idle), but no node waits for an event either, such as
    /// the tokens of a language model. A node that is held open for the whole session keeps this from
    /// resolving before its end.
    pub async fn wait_until_settled(&self) -> Result<()> {
        self.wait_until(true).await
    }

    async fn wait_until(&self, without_events: bool) -> Result<()> {
        let (answer, answered) = oneshot::channel();
        let asked = self.tell(Message::Idle {
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

    /// What the session waits for. Answered by the session itself, between two calls of nodes.
    pub async fn why(&self) -> Why {
        let (answer, answered) = oneshot::channel();
        if self.tell(Message::Why(answer)).is_err() {
            return Why::ended();
        }
        answered.await.unwrap_or_else(|_| Why::ended())
    }

    fn input(&self, stream: &str) -> Result<u16> {
        let found = self
            .plan
            .graph_inputs
            .iter()
            .position(|port| &*port.name == stream);
        found
            .map(|input| input as u16)
            .ok_or_else(|| Error::not_found(format!("`{stream}` is no input stream of the graph")))
    }

    fn check_type(&self, input: u16, packet: &Packet) -> Result<()> {
        let stream = self.plan.graph_inputs[usize::from(input)].stream;
        self.plan.streams[stream as usize].check_type(packet)
    }

    /// Takes the packet and sends it; false if there is no room. The task of `cx` is woken when
    /// there is.
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
        let message = Message::Packet {
            input,
            packet: sent,
        };
        let pushed = state.exchange.push(usize::from(input), message, cx);
        drop(state);
        match pushed {
            Pushed::Yes(wake) => {
                drop(Wake(wake));
                Ok(true)
            }
            Pushed::Full(message) => {
                if let Message::Packet { packet: back, .. } = message {
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
        let message = Message::CloseInput { input };
        let wake = Wake(state.exchange.close(usize::from(input), message));
        drop(state);
        drop(wake);
    }

    fn tell(&self, message: Message) -> Result<()> {
        match self.shared.send(message) {
            Ok(wake) => {
                drop(wake);
                Ok(())
            }
            Err(_) => self.shared.lock().ended(),
        }
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
