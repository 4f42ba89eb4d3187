//! One request's session, as its answer: packets until the end, then the reason if it ended badly.
//!
//! An `Answer` owns the session's handle, and the session ends when the handle is dropped. So does
//! everything that works for the request: there is no other way to cancel, and none is needed.

use std::{future::pending, pin::Pin, sync::Arc, time::Duration};

use graphmill_calculators::payload::{HttpRequestPayload, HttpResponse};
use graphmill_engine::{Error, Handle, OutputStream, Packet, SidePackets, Summary};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Sleep, sleep_until},
};

use super::{Listing, Opened, RequestInfo, Running, open};
use crate::{
    errors::{Cause, Failure},
    observe::trace::RunTrace,
    servable::{Ready, request_stream, response_stream},
    sessions::Sessions,
    stage::{Stage, cut},
};

/// How long a session has to end by itself once its deadline has passed. One does not while a node
/// computes in its task.
const NOTICE: Duration = Duration::from_millis(20);

/// The answer of a graph to one request.
pub(crate) struct Answer {
    packets: OutputStream,
    /// How the session ended; taken when it has been asked.
    session: Option<JoinHandle<Result<Summary, Error>>>,
    summary: Option<Summary>,
    stage: watch::Receiver<Stage>,
    /// Until when the session has to have ended, where it has a deadline.
    overdue: Option<Pin<Box<Sleep>>>,
    /// Cancels the session when it is dropped.
    _handle: Handle,
    _listing: Listing,
}

impl Answer {
    /// Opens a session on a graph and gives it the request. `trace` makes spans of the run, where
    /// they are sent.
    pub(crate) async fn open(
        stage: &watch::Receiver<Stage>,
        lists: (&Arc<Running>, &Arc<Sessions>),
        ready: Ready,
        request: RequestInfo,
        payload: HttpRequestPayload,
        trace: Option<RunTrace>,
    ) -> Result<Self, Failure> {
        let plan = Arc::clone(&ready.plan);
        let (Some(input), Some(output)) = (request_stream(&plan), response_stream(&plan)) else {
            let name = ready.servable.name();
            let why = format!("the graph takes tensors: POST /v2/models/{name}/infer");
            return Err(Failure::new(Cause::BadRequest, why).of_field("model"));
        };
        // A deadline that is too far off to be represented never comes.
        let overdue = request.deadline.and_then(|at| at.checked_add(NOTICE));
        let label = payload.uri.split('?').next().unwrap_or_default();
        let Opened {
            mut session,
            handle,
            listing,
            ..
        } = open(lists, ready, &SidePackets::new(), label, request)?;
        if let Some(trace) = trace {
            session.on_end(|summary, error| trace.end(summary, error));
        }
        let packets = handle.output(output)?;
        let session = tokio::spawn(session);
        handle.push(input, Packet::new(0, payload)).await?;
        handle.close(input)?;
        Ok(Self {
            packets,
            session: Some(session),
            summary: None,
            stage: stage.clone(),
            overdue: overdue.map(|at| Box::pin(sleep_until(at.into()))),
            _handle: handle,
            _listing: listing,
        })
    }

    /// The first packet of the answer.
    pub(crate) async fn first(&mut self) -> Result<HttpResponse, Failure> {
        match self.next().await? {
            Some(first) => Ok(first),
            None => Err(Failure::no_answer(self.summary.as_ref())),
        }
    }

    /// The next packet; `None` when the session has ended well. May be dropped before it is ready:
    /// no packet is lost.
    pub(crate) async fn next(&mut self) -> Result<Option<HttpResponse>, Failure> {
        let Self {
            packets,
            session,
            summary,
            stage,
            overdue,
            ..
        } = self;
        tokio::select! {
            // A stop comes first: a client that keeps reading must not hold it up.
            biased;
            () = cut(stage) => Err(Failure::new(Cause::Draining, "the server is stopping")),
            packet = packets.next() => {
                if let Some(packet) = packet {
                    return packet.into_value().map(Some).ok_or_else(wrong_type);
                }
                if let Some(ended) = ended(session).await? {
                    *summary = Some(ended);
                }
                Ok(None)
            }
            () = passed(overdue) => {
                Err(Failure::new(Cause::Deadline, "the deadline of the request passed"))
            }
        }
    }

    /// What the session did, once the rest of the answer has come; `None` if it did not end well.
    pub(crate) async fn summary(&mut self) -> Option<&Summary> {
        while let Ok(Some(_)) = self.next().await {}
        self.summary.as_ref()
    }
}

/// Waits until a moment has come, if one was set.
async fn passed(moment: &mut Option<Pin<Box<Sleep>>>) {
    match moment {
        Some(moment) => moment.as_mut().await,
        None => pending().await,
    }
}

/// How a session ended. It has closed its outputs, so this is about to be known.
async fn ended(
    session: &mut Option<JoinHandle<Result<Summary, Error>>>,
) -> Result<Option<Summary>, Failure> {
    let Some(task) = session.as_mut() else {
        return Ok(None);
    };
    let outcome = task.await;
    *session = None;
    match outcome {
        Ok(outcome) => outcome.map(Some).map_err(Failure::from),
        Err(_) => Err(Failure::new(Cause::Panic, "the session failed")),
    }
}

fn wrong_type() -> Failure {
    Failure::new(
        Cause::NoAnswer,
        "the graph's answer is a packet of another type than `HttpResponse`",
    )
}
