//! The session of a request: opening, driving, and its packets. For a graph that takes HTTP
//! requests, packets form the HTTP response: a whole body, or a stream of events.
//!
//! A `GraphRun` owns the session's handle, and the session ends when the handle is dropped, with
//! everything that works for the request. There is no other way to cancel.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Poll, ready},
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, StreamExt as _, TryFutureExt as _, future::BoxFuture};
use graphmill_calculators::payload::{Account, HttpRequestPayload, HttpResponse};
use graphmill_engine::{
    Error, Handle, OutputStream, Packet, Plan, RunCx, Session, SidePackets, Summary,
};

use super::{Guard, RequestContext, running::RequestGuard};
use crate::{
    errors::{Cause, Failure},
    owner::Owner,
    servable::{InUse, Ready, request_stream, response_stream},
    sessions::{About, SessionEntry},
    telemetry::trace::RunTrace,
};

/// Time for a session to end by itself after its deadline. It cannot while a node computes in its
/// task.
const NOTICE: Duration = Duration::from_millis(20);

/// The options of a run.
pub(super) struct RunOptions<'a> {
    /// Description of the session for people.
    pub(super) label: &'a str,
    pub(super) sides: &'a SidePackets,
    /// Priority level for nodes that batch tensors; 0 for their default.
    pub(super) batch_priority: u32,
    /// Deadline after which the session is cancelled.
    pub(super) deadline: Option<Instant>,
    pub(super) driver: Driver,
    /// Creator of the spans of the run, if they are sent.
    pub(super) trace: Option<RunTrace>,
}

/// The task that polls a session.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// The reader of its packets, for a run of a single request.
    Reader,
    /// A separate task, for a run that outlives a request.
    Task,
}

/// An output packet, with the index of its output.
pub(crate) type OutputPacket = (usize, Packet);

/// One run of a graph.
pub(crate) struct GraphRun {
    pub(crate) plan: Arc<Plan>,
    outputs: Vec<Option<OutputStream>>,
    /// Resolves when the session has ended; `None` after that.
    session: Option<BoxFuture<'static, Result<Summary, Failure>>>,
    /// Result of the session after its end.
    outcome: Option<Result<Summary, Failure>>,
    guard: Guard,
    /// Cancels the session when its last clone is dropped.
    pub(super) handle: Arc<Handle>,
    /// Guards that list the request and its session, and keep the graph in memory.
    _listed: (RequestGuard, SessionEntry, InUse),
}

impl RequestContext {
    /// Creates the session of a request, and lists the request until the guard is dropped.
    pub(crate) fn session(
        &self,
        plan: &Arc<Plan>,
        sides: SidePackets,
        deadline: Option<Instant>,
        account: Account,
    ) -> Result<((Session, Handle), RequestGuard), Error> {
        let mut context = RunCx::new(self.id.text.clone());
        context.deadline = deadline;
        context.tenant = self.owner.as_ref().map(Owner::name);
        context.extension = Some(Arc::new(account));
        context.trace.traceparent.clone_from(&self.traceparent);
        let cancel = context.cancel.clone();
        let key = self.owner.as_ref().and_then(Owner::key);
        let listed = self.runner.running.list(&self.id, key.cloned(), cancel);
        Ok((Session::new(plan, context, sides)?, listed))
    }
}

impl GraphRun {
    /// Opens a session on a graph, for some of its outputs.
    pub(super) fn open<'a>(
        who: &RequestContext,
        ready: Ready,
        outputs: impl IntoIterator<Item = &'a str>,
        options: RunOptions<'_>,
    ) -> Result<Self, Failure> {
        let records = who.records()?;
        let account = Account {
            batch_priority: options.batch_priority,
            ..who.account()
        };
        let sides = options.sides.clone();
        let ((mut session, handle), listed) =
            who.session(&ready.plan, sides, options.deadline, account)?;
        let about = About {
            servable: &ready.servable,
            request: &who.id.text,
            key: who.owner.as_ref().and_then(Owner::key),
            label: options.label,
            sides: options.sides,
            records,
        };
        let entered = who.runner.sessions.enter(&mut session, &handle, &about);
        if let Some(trace) = options.trace {
            session.on_end(|summary, error| trace.end(summary, error));
        }
        let outputs = outputs.into_iter();
        let outputs = outputs.map(|name| handle.output(name).map(Some));
        let outputs = outputs.collect::<Result<_, _>>()?;
        let session = match options.driver {
            Driver::Reader => session.map_err(Failure::from).boxed(),
            Driver::Task => {
                let task = tokio::spawn(session);
                let failed = |_| Failure::new(Cause::Panic, "the session failed");
                async move { task.await.map_err(failed)?.map_err(Failure::from) }.boxed()
            }
        };
        who.entry.entered();
        let overdue = options.deadline.and_then(|at| at.checked_add(NOTICE));
        Ok(Self {
            plan: ready.plan,
            outputs,
            session: Some(session),
            outcome: None,
            guard: who.runner.guard(overdue),
            handle: Arc::new(handle),
            _listed: (listed, entered, ready.in_use),
        })
    }

    /// Runs a graph with an HTTP request.
    pub(crate) async fn open_http(
        who: &RequestContext,
        ready: Ready,
        payload: HttpRequestPayload,
        deadline: Option<Instant>,
        trace: Option<RunTrace>,
    ) -> Result<Self, Failure> {
        let plan = Arc::clone(&ready.plan);
        let (Some(input), Some(output)) = (request_stream(&plan), response_stream(&plan)) else {
            return Err(Failure::for_tensors(ready.servable.name()));
        };
        let options = RunOptions {
            label: payload.uri.split('?').next().unwrap_or_default(),
            sides: &SidePackets::new(),
            batch_priority: 0,
            deadline,
            driver: Driver::Task,
            trace,
        };
        let run = Self::open(who, ready, [output], options)?;
        run.handle.push(input, Packet::new(0, payload)).await?;
        run.handle.close(input)?;
        Ok(run)
    }

    /// Returns the next packet of the answer to an HTTP request, like [`GraphRun::next`].
    pub(crate) async fn next_response(&mut self) -> Result<Option<HttpResponse>, Failure> {
        let Some((_, packet)) = self.next().await? else {
            return Ok(None);
        };
        packet.into_value().map(Some).ok_or_else(|| {
            let why = "the graph's answer is a packet whose type is not `HttpResponse`";
            Failure::new(Cause::NoAnswer, why)
        })
    }

    /// Waits for the end of the session. Returns its summary if it succeeded.
    pub(crate) async fn finish(&mut self) -> Option<&Summary> {
        while let Ok(Some(_)) = self.next().await {}
        self.summary()
    }

    /// Returns the next packet of any output; `None` when the session has ended without an error.
    /// Dropping the future loses no packet.
    pub(crate) async fn next(&mut self) -> Result<Option<OutputPacket>, Failure> {
        let next = poll_fn(|cx| {
            loop {
                for (position, output) in self.outputs.iter_mut().enumerate() {
                    match output.as_mut().map(|stream| stream.poll_next_unpin(cx)) {
                        Some(Poll::Ready(Some(packet))) => {
                            return Poll::Ready(Ok(Some((position, packet))));
                        }
                        Some(Poll::Ready(None)) => *output = None,
                        Some(Poll::Pending) | None => {}
                    }
                }
                let Some(session) = &mut self.session else {
                    return Poll::Ready(match &self.outcome {
                        Some(Err(failure)) => Err(failure.clone()),
                        Some(Ok(_)) | None => Ok(None),
                    });
                };
                // Outputs may still contain packets.
                self.outcome = Some(ready!(session.poll_unpin(cx)));
                self.session = None;
            }
        });
        self.guard.wait(next).await
    }

    /// Returns the summary of the session, if it is known to have succeeded.
    pub(crate) fn summary(&self) -> Option<&Summary> {
        self.outcome.as_ref()?.as_ref().ok()
    }

    /// Returns true if the session has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.handle.observer().ended().is_some()
    }
}
