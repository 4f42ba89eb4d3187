//! The caller of a graph run: what the layers around a request know about it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::{Extensions, HeaderMap, HeaderValue};
use graphmill_calculators::payload::Account;
use graphmill_engine::SidePackets;

use crate::{
    errors::{Cause, Failure},
    http::{access::Entry, observe::RECORD, state::App},
    keys::{Caller, Settlement},
    kserve::{self, Inference, Settings},
    listen::{Arrival, time_allowed},
    observe::{request_id::Id, trace::RequestTrace},
    owner::{self, Owner},
    run::{Driver, RequestInfo},
    servable::{Choice, Ready, Servable},
};

/// Who asks.
pub(crate) struct RequestContext {
    id: Id,
    pub(crate) entry: Entry,
    caller: Option<Arc<Caller>>,
    owner: Option<Owner>,
    arrived: Instant,
    /// How long the answer may take, as far as the head says.
    allowed: Option<Duration>,
    traceparent: Option<Arc<str>>,
    /// Whether it is to be recorded, as the head says.
    records: Option<HeaderValue>,
}

impl RequestContext {
    /// Reads what the layers have noted, and the head's deadline.
    pub(crate) fn of(extensions: &Extensions, headers: &HeaderMap) -> Result<Self, Failure> {
        let extension = "the layers around every route set it";
        let entry = extensions.get::<Entry>().expect(extension).clone();
        let traceparent = entry.trace().map(RequestTrace::traceparent);
        let arrival = extensions.get::<Arrival>();
        Ok(Self {
            id: extensions.get::<Id>().expect(extension).clone(),
            caller: extensions.get::<Arc<Caller>>().cloned(),
            owner: Owner::of(extensions),
            arrived: arrival.map_or_else(Instant::now, |arrival| arrival.0),
            allowed: time_allowed(headers)?,
            traceparent,
            records: headers.get(RECORD).cloned(),
            entry,
        })
    }

    /// The graph of this name and version, if the caller may use it.
    pub(crate) fn find(
        &self,
        app: &App,
        name: &str,
        version: &str,
    ) -> Result<Arc<Servable>, Failure> {
        let find = |name: &str| {
            let found = app.find(name, self.caller.as_deref());
            found.map(|named| named.servable)
        };
        let graph = find(name)?;
        find(&kserve::versioned(&graph, name, version)?)
    }

    /// The same, once it is available.
    pub(crate) async fn available(
        &self,
        app: &App,
        name: &str,
        version: &str,
    ) -> Result<Ready, Failure> {
        let graph = self.find(app, name, "")?;
        let name = kserve::versioned(&graph, name, version)?;
        let choice = Choice::By(Arc::clone(&self.id.text));
        let (caller, deadline) = (self.caller.as_deref(), self.deadline());
        app.available(&name, &choice, caller, deadline).await
    }

    /// When the answer has to be there, as far as the head says. A time that is too far off to be
    /// represented never comes.
    fn deadline(&self) -> Option<Instant> {
        self.earlier(None)
    }

    /// The earlier of the deadline that the head says and the end of this time.
    fn earlier(&self, time: Option<Duration>) -> Option<Instant> {
        let shorter = self.allowed.into_iter().chain(time).min();
        shorter.and_then(|time| self.arrived.checked_add(time))
    }

    /// The name of the key, where there are keys.
    pub(crate) fn key(&self) -> Option<Arc<str>> {
        self.caller.as_ref().map(|caller| Arc::clone(caller.name()))
    }

    /// The owner of the request.
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.owner.clone()
    }

    /// Whether the caller may use a graph.
    pub(crate) fn sees(&self, name: &str) -> bool {
        let caller = self.caller.as_ref();
        caller.is_none_or(|caller| caller.sees(name, None))
    }

    /// Resolves when the deadline that the head says has passed, with the failure that it is.
    pub(crate) async fn expires(&self) -> Failure {
        self.expires_within(None).await
    }

    /// The same for the earlier of that deadline and the end of this time.
    pub(crate) async fn expires_within(&self, time: Option<Duration>) -> Failure {
        match self.earlier(time) {
            Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
            None => std::future::pending().await,
        }
        Failure::new(Cause::Deadline, "the deadline of the request passed")
    }

    /// Opens a run of a graph.
    pub(crate) fn open(
        &self,
        app: &App,
        ready: Ready,
        settings: Settings,
        driver: Driver,
    ) -> Result<Inference, Failure> {
        let deadline = self.earlier(settings.timeout);
        self.entry
            .model(ready.servable.name(), driver == Driver::Task);
        let Settings {
            sides, priority, ..
        } = settings;
        self.open_until(app, ready, &sides, priority, deadline, driver)
    }

    /// Opens a run of a graph that outlives the request.
    pub(crate) fn open_sequence(
        &self,
        app: &App,
        ready: Ready,
        sides: &SidePackets,
        priority: u32,
    ) -> Result<Inference, Failure> {
        self.entry.model(ready.servable.name(), false);
        self.open_until(app, ready, sides, priority, None, Driver::Task)
    }

    fn open_until(
        &self,
        app: &App,
        ready: Ready,
        sides: &SidePackets,
        priority: u32,
        deadline: Option<Instant>,
        driver: Driver,
    ) -> Result<Inference, Failure> {
        if let Some(caller) = &self.caller {
            caller.is_tallied(self.entry.tally());
        }
        let records = app.records(self.records.as_ref(), self.caller.as_deref())?;
        let request = RequestInfo {
            id: self.id.clone(),
            deadline,
            owner: self.owner(),
            account: Account {
                tally: self.entry.tally(),
                tenant: owner::tenant(self.caller.as_ref(), self.owner.as_ref()),
                terms: self.caller.as_ref().map(Caller::terms),
                priority,
                recorded: None,
            },
            traceparent: self.traceparent.clone(),
            records,
        };
        let lists = (&app.running, &app.sessions);
        let inference = Inference::open(&app.stage, lists, ready, sides, driver, request)?;
        self.entry.entered();
        Ok(inference)
    }

    /// Says which graph goes on with a run that an earlier request opened.
    pub(crate) fn goes_on(&self, name: &str) {
        self.entry.model(name, false);
        self.entry.entered();
    }

    /// What settles the account of the caller's key when it is dropped.
    pub(crate) fn settlement(&self) -> Option<Settlement> {
        self.caller.clone().map(Settlement)
    }
}
