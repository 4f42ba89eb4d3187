//! One request's session, as its answer: packets until the end, then the reason if it ended badly.
//!
//! An `Answer` owns the session's handle, and the session ends when the handle is dropped. So does
//! everything that works for the request: there is no other way to cancel, and none is needed.

use std::{sync::Arc, time::Instant};

use graphmill_calculators::payload::{Account, HttpRequestPayload, HttpResponse};
use graphmill_engine::{Error, Handle, OutputStream, Packet, RunCx, Session, SidePackets, Summary};
use tokio::{sync::watch, task::JoinHandle};

use super::{
    load::{request_stream, response_stream},
    running::{Listed, Running},
    state::Servable,
};
use crate::{
    observe::{request_id::Id, trace::RunTrace},
    rescue::{Cause, Failure},
};

/// How far the server is from its end.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It serves.
    Running,
    /// It serves, but says that it is not ready, so that no more requests are sent here.
    Leaving,
    /// It takes no new request and lets the running ones end.
    Draining,
    /// It ends the running ones.
    Cut,
}

/// Waits until the server ends running requests, or is gone.
pub(crate) async fn cut(stage: &mut watch::Receiver<Stage>) {
    // Fails when the server was dropped without a stop, which ends requests too.
    let _ = stage.wait_for(|stage| *stage == Stage::Cut).await;
}

/// The trace that a request belongs to.
#[derive(Default)]
pub(crate) struct Trace {
    /// What nodes tell others that they ask.
    pub(crate) traceparent: Option<Arc<str>>,
    /// What makes spans of the run, where they are sent.
    pub(crate) run: Option<RunTrace>,
}

/// The answer of a graph to one request.
pub(crate) struct Answer {
    packets: OutputStream,
    /// How the session ended; taken when it has been asked.
    session: Option<JoinHandle<Result<Summary, Error>>>,
    stage: watch::Receiver<Stage>,
    /// Cancels the session when it is dropped.
    _handle: Handle,
    _listed: Listed,
}

/// A request, as the session's context has it.
pub(crate) struct Asked {
    pub(crate) id: Id,
    /// When the session ends at the latest.
    pub(crate) deadline: Option<Instant>,
    /// The name of its key, where there are keys.
    pub(crate) key: Option<Arc<str>>,
    pub(crate) account: Account,
    pub(crate) trace: Trace,
    pub(crate) payload: HttpRequestPayload,
}

impl Answer {
    /// Opens a session on a graph and gives it the request.
    pub(crate) async fn open(
        stage: &watch::Receiver<Stage>,
        running: &Arc<Running>,
        servable: &Servable,
        asked: Asked,
    ) -> Result<Self, Failure> {
        let plan = servable.plan()?;
        let (Some(input), Some(output)) = (request_stream(&plan), response_stream(&plan)) else {
            let name = servable.name();
            let why = format!("the graph takes tensors: POST /v2/models/{name}/infer");
            return Err(Failure::new(Cause::BadRequest, why).of_field("model"));
        };
        let mut run = RunCx::new(asked.id.text.clone());
        run.deadline = asked.deadline;
        run.tenant.clone_from(&asked.key);
        run.extension = Some(Arc::new(asked.account));
        let listed = running.list(&asked.id, asked.key, run.cancel.clone());
        run.trace.traceparent = asked.trace.traceparent;
        let (mut session, handle) = Session::new(&plan, run, SidePackets::new())?;
        if let Some(run) = asked.trace.run {
            session.on_end(|summary, error| run.end(summary, error));
        }
        let packets = handle.output(output)?;
        let session = tokio::spawn(session);
        handle.push(input, Packet::new(0, asked.payload)).await?;
        handle.close(input)?;
        Ok(Self {
            packets,
            session: Some(session),
            stage: stage.clone(),
            _handle: handle,
            _listed: listed,
        })
    }

    /// The first packet of the answer.
    pub(crate) async fn first(&mut self) -> Result<HttpResponse, Failure> {
        let none = || Failure::new(Cause::NoAnswer, "the graph ended without an answer");
        self.next().await?.ok_or_else(none)
    }

    /// The next packet; `None` when the session has ended well. May be dropped before it is ready:
    /// no packet is lost.
    pub(crate) async fn next(&mut self) -> Result<Option<HttpResponse>, Failure> {
        let Self {
            packets,
            session,
            stage,
            ..
        } = self;
        tokio::select! {
            // A stop comes first: a client that keeps reading must not hold it up.
            biased;
            () = cut(stage) => Err(Failure::new(Cause::Draining, "the server is stopping")),
            packet = packets.next() => match packet {
                Some(packet) => packet.into_value().map(Some).ok_or_else(wrong_type),
                None => ended(session).await.map(|()| None),
            },
        }
    }
}

/// How a session ended. It has closed its outputs, so this is about to be known.
pub(crate) async fn ended(
    session: &mut Option<JoinHandle<Result<Summary, Error>>>,
) -> Result<(), Failure> {
    let Some(task) = session.as_mut() else {
        return Ok(());
    };
    let outcome = task.await;
    *session = None;
    match outcome {
        Ok(outcome) => outcome.map(drop).map_err(Failure::from),
        Err(_) => Err(Failure::new(Cause::Panic, "the session failed")),
    }
}

fn wrong_type() -> Failure {
    Failure::new(
        Cause::NoAnswer,
        "the graph's answer is a packet of another type than `HttpResponse`",
    )
}
