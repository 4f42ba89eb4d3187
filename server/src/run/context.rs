//! The sender of a request: what the layers around the request and its head say of it.

use std::{
    ops::RangeInclusive,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::{Extensions, HeaderMap, HeaderValue};
use graphmill_calculators::payload::Account;

use super::{Entry, Guard, RECORD, Runner};
use crate::{
    errors::Failure,
    keys::{Caller, Settlement},
    listen::{Exchange, time_allowed},
    observe::{request_id::Id, trace::RequestTrace},
    owner::{self, Owner},
    servable::{Choice, Named, Ready},
    sessions::RecordingOptions,
};

/// The header with which a client says which of its requests belong together.
const SESSION: &str = "x-session-id";

/// Lengths of a `traceparent`: later versions are longer than today's.
const TRACEPARENT_BYTES: RangeInclusive<usize> = 55..=256;

/// The sender of a request, and what its answer has to keep to.
pub(crate) struct RequestContext {
    pub(crate) runner: Arc<Runner>,
    pub(super) id: Id,
    pub(crate) entry: Entry,
    pub(crate) caller: Option<Arc<Caller>>,
    pub(crate) owner: Option<Owner>,
    arrived: Instant,
    /// Time for the answer, as far as the head says.
    allowed: Option<Duration>,
    /// The choice among versions, the same for all requests of a session; else by the request's id.
    choice: Choice,
    /// The trace that the request belongs to: ours where traces are collected, else its sender's.
    pub(super) traceparent: Option<Arc<str>>,
    /// The head's [`RECORD`].
    records: Option<HeaderValue>,
}

impl RequestContext {
    /// Reads what the layers have noted, and the head.
    ///
    /// # Errors
    /// If the deadline of the head is no time.
    pub(crate) fn read(
        runner: &Arc<Runner>,
        extensions: &Extensions,
        headers: &HeaderMap,
    ) -> Result<Self, Failure> {
        let extension = "the layers around every route set it";
        let id = extensions.get::<Id>().expect(extension).clone();
        let entry = extensions.get::<Entry>().expect(extension).clone();
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let choice = text(SESSION).map_or_else(|| Arc::clone(&id.text), Into::into);
        let given = text("traceparent").filter(|it| TRACEPARENT_BYTES.contains(&it.len()));
        let ours = entry.trace().map(RequestTrace::traceparent);
        let traceparent = ours.or_else(|| given.map(Into::into));
        let exchange = extensions.get::<Arc<Exchange>>();
        Ok(Self {
            runner: Arc::clone(runner),
            caller: extensions.get::<Arc<Caller>>().cloned(),
            owner: Owner::of(extensions),
            arrived: exchange.map_or_else(Instant::now, |exchange| exchange.arrived),
            allowed: time_allowed(headers)?,
            choice: Choice::By(choice),
            traceparent,
            records: headers.get(RECORD).cloned(),
            id,
            entry,
        })
    }

    /// Finds a graph or adapter by its name, if the caller may use it: of a graph with versions the
    /// newest that answers.
    pub(crate) fn find(&self, name: &str) -> Result<Named, Failure> {
        self.runner.find(name, self.caller.as_deref())
    }

    /// The same, of a graph with versions the one that is for this request.
    pub(crate) fn choose(&self, name: &str) -> Result<Named, Failure> {
        let caller = self.caller.as_deref();
        self.runner.choose(name, &self.choice, caller)
    }

    /// Waits until what [`RequestContext::choose`] finds is available.
    pub(crate) async fn available(
        &self,
        name: &str,
        deadline: Option<Instant>,
    ) -> Result<Ready, Failure> {
        let caller = self.caller.as_deref();
        let available = self.runner.available(name, &self.choice, caller, deadline);
        available.await
    }

    /// The moment at which the answer has to be there: within the time that the head allows, and within this one.
    /// A deadline that is too far off to be represented never comes.
    pub(crate) fn deadline(&self, within: Option<Duration>) -> Option<Instant> {
        let shorter = self.allowed.into_iter().chain(within).min();
        shorter.and_then(|time| self.arrived.checked_add(time))
    }

    /// Guards waits until that deadline.
    pub(crate) fn guard(&self, within: Option<Duration>) -> Guard {
        self.runner.guard(self.deadline(within))
    }

    /// The name of the key, where there are keys.
    pub(crate) fn key(&self) -> Option<Arc<str>> {
        self.caller.as_ref().map(|caller| Arc::clone(caller.name()))
    }

    /// Returns true if the caller may use a graph.
    pub(crate) fn sees(&self, name: &str) -> bool {
        let caller = self.caller.as_ref();
        caller.is_none_or(|caller| caller.sees(name, None))
    }

    /// Settles the account of the caller's key when it is dropped.
    pub(crate) fn settlement(&self) -> Option<Settlement> {
        self.caller.clone().map(Settlement)
    }

    /// The account of a run, which counts for the request and its key.
    pub(crate) fn account(&self) -> Account {
        let tally = self.entry.tally();
        if let Some(caller) = &self.caller {
            caller.is_tallied(Arc::clone(&tally));
        }
        Account {
            tally,
            tenant: owner::tenant(self.caller.as_ref(), self.owner.as_ref()),
            terms: self.caller.as_ref().map(Caller::terms),
            ..Account::default()
        }
    }

    /// Reads what is to be recorded of its run, if anything.
    pub(super) fn records(&self) -> Result<Option<RecordingOptions>, Failure> {
        let records = self.records.as_ref();
        let records = records.map(|it| self.runner.records(it, self.caller.as_deref()));
        records.transpose()
    }
}
