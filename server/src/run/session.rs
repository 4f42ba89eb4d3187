//! The session of a request: opened, driven, and its packets as they come.
//!
//! A `Run` owns the session's handle, and the session ends when the handle is dropped. So does
//! everything that works for the request: there is no other way to cancel, and none is needed.

use std::{
    future::{pending, poll_fn},
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use graphmill_calculators::payload::Account;
use graphmill_engine::{
    Error, Handle, OutputStream, Packet, Plan, RunCx, Session, SidePackets, Summary,
};
use tokio::task::JoinHandle;

use super::{Guard, Listing, RequestContext};
use crate::{
    errors::{Cause, Failure},
    observe::trace::RunTrace,
    owner::Owner,
    servable::{InUse, Ready},
    sessions::{About, Entered},
};

/// Time for a session to end by itself once its deadline has passed. One does not while a node
/// computes in its task.
const NOTICE: Duration = Duration::from_millis(20);

/// Options of one run.
pub(crate) struct RunOptions<'a> {
    /// A name of the session, for people.
    pub(crate) label: &'a str,
    pub(crate) sides: &'a SidePackets,
    /// The level that nodes which batch tensors have for it; 0 for their default.
    pub(crate) batch_priority: u32,
    /// The moment at which the session ends at the latest.
    pub(crate) deadline: Option<Instant>,
    pub(crate) driver: Driver,
    /// Makes spans of the run, where they are sent.
    pub(crate) trace: Option<RunTrace>,
}

/// The one who polls a session.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// Polled by the reader of its packets: a one-shot run.
    Reader,
    /// A task of its own.
    Task,
}

/// A session, by what drives it.
enum Driven {
    Here(Box<Session>),
    Apart(JoinHandle<Result<Summary, Error>>),
    /// It has ended and said how: its summary, if it ended well.
    Ended(Option<Summary>),
}

/// A packet of a graph, and the position of its output.
pub(crate) type OutputPacket = (usize, Packet);

/// One run of a graph.
pub(crate) struct Run {
    plan: Arc<Plan>,
    outputs: Vec<Option<OutputStream>>,
    session: Driven,
    guard: Guard,
    /// Cancels the session when the last is dropped.
    handle: Arc<Handle>,
    /// Lists the request and its session, and keeps their graph in memory.
    _listed: (Listing, Entered, InUse),
}

impl RequestContext {
    /// Makes a session of the request, and lists the request until the listing is dropped.
    pub(crate) fn session(
        &self,
        plan: &Arc<Plan>,
        sides: SidePackets,
        deadline: Option<Instant>,
        account: Account,
    ) -> Result<((Session, Handle), Listing), Error> {
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

impl Run {
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
            Driver::Reader => Driven::Here(Box::new(session)),
            Driver::Task => Driven::Apart(tokio::spawn(session)),
        };
        who.entry.entered();
        let overdue = options.deadline.and_then(|at| at.checked_add(NOTICE));
        Ok(Self {
            plan: ready.plan,
            outputs,
            session,
            guard: who.runner.guard(overdue),
            handle: Arc::new(handle),
            _listed: (listed, entered, ready.in_use),
        })
    }

    pub(super) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    pub(super) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// The next packet of any output; `None` when the session has ended well. May be dropped before
    /// it is ready: no packet is lost.
    pub(super) async fn next(&mut self) -> Result<Option<OutputPacket>, Failure> {
        let (outputs, session) = (&mut self.outputs, &mut self.session);
        let next = async {
            loop {
                tokio::select! {
                    biased;
                    given = next_of(outputs) => return match given {
                        Some(given) => Ok(Some(given)),
                        None => session.outcome().await.map(|()| None),
                    },
                    // Outputs may still have packets.
                    outcome = session.drive() => outcome?,
                }
            }
        };
        self.guard.wait(next).await
    }

    /// Returns the summary of the session, if it is known to have ended well.
    pub(super) fn summary(&self) -> Option<&Summary> {
        match &self.session {
            Driven::Here(_) | Driven::Apart(_) => None,
            Driven::Ended(summary) => summary.as_ref(),
        }
    }

    /// Returns true if the session is known to have ended.
    pub(super) fn has_ended(&self) -> bool {
        match &self.session {
            Driven::Here(_) => false,
            Driven::Apart(task) => task.is_finished(),
            Driven::Ended(_) => true,
        }
    }
}

/// The next packet of any of these outputs; none when all have ended.
async fn next_of(outputs: &mut [Option<OutputStream>]) -> Option<OutputPacket> {
    poll_fn(|cx| {
        let mut is_over = true;
        for (position, output) in outputs.iter_mut().enumerate() {
            match output.as_mut().map(|stream| stream.poll_next_unpin(cx)) {
                Some(Poll::Ready(Some(packet))) => return Poll::Ready(Some((position, packet))),
                Some(Poll::Ready(None)) => *output = None,
                Some(Poll::Pending) => is_over = false,
                None => {}
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

impl Driven {
    /// Resolves when the session has ended, if it is driven here; never if it is not.
    async fn drive(&mut self) -> Result<(), Failure> {
        match self {
            Self::Here(session) => {
                let outcome = session.await;
                self.ends(outcome)
            }
            Self::Apart(_) | Self::Ended(_) => pending().await,
        }
    }

    /// Waits for the end of the session. It has closed its outputs, so the end is near.
    async fn outcome(&mut self) -> Result<(), Failure> {
        match self {
            Self::Here(_) => self.drive().await,
            Self::Apart(task) => {
                let outcome = task.await;
                *self = Self::Ended(None);
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
}
