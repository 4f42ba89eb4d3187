//! The sender of a request: what the layers around the request and its head say of it, and the
//! graphs that it may use.

use std::{
    ops::RangeInclusive,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use graphmill_calculators::payload::Account;
use tokio::sync::watch;

use super::{Entry, Guard, Running};
use crate::{
    errors::{Cause, Failure},
    keys::{Caller, Settlement},
    listen::{Exchange, time_allowed},
    observe::{request_id::Id, trace::RequestTrace},
    owner::{self, Owner},
    servable::{Choice, Named, Patience, Ready, Servable, Servables, Served},
    sessions::{RecordingOptions, Sessions},
    stage::Stage,
};

/// The header of a request that is to be recorded: `1`, or `payloads` for what its packets carry,
/// too.
pub(crate) const RECORD: HeaderName = HeaderName::from_static("x-graphmill-record");

/// The header with which a client says which of its requests belong together.
const SESSION: &str = "x-session-id";

/// Lengths of a `traceparent`: later versions are longer than today's.
const TRACEPARENT_BYTES: RangeInclusive<usize> = 55..=256;

/// State that all runs share: the graphs, the lists of requests and sessions, and the end of the
/// server.
pub(crate) struct Runner {
    pub(crate) served: Arc<Served>,
    pub(crate) running: Arc<Running>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) stage: watch::Receiver<Stage>,
    /// Maximum time for which a request waits for a graph to be loaded.
    pub(crate) load_wait: Duration,
    /// True if all clients are operators: there are no keys, and no listener for operators.
    pub(crate) is_open: bool,
}

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
        let ours = entry.trace.as_ref().map(RequestTrace::traceparent);
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

    /// The graphs that are served now. A request asks once, so that it sees one configuration.
    pub(crate) fn servables(&self) -> Arc<Servables> {
        self.runner.served.now()
    }

    /// Finds a graph or adapter by its name, if the caller may use it: of a graph with versions the
    /// newest that answers.
    pub(crate) fn find(&self, name: &str) -> Result<Named, Failure> {
        self.find_by(name, &Choice::Newest)
    }

    /// The same, of a graph with versions the one that is for this request.
    pub(crate) fn choose(&self, name: &str) -> Result<Named, Failure> {
        self.find_by(name, &self.choice)
    }

    fn find_by(&self, name: &str, choice: &Choice) -> Result<Named, Failure> {
        let servables = self.servables();
        let found = servables.find(name, choice, |graph, adapter| self.sees(graph, adapter));
        if let Some(caller) = &self.caller
            && found.is_err()
            && servables.named(name, choice).is_some()
        {
            caller.model_refused();
        }
        found
    }

    /// Waits until what [`RequestContext::choose`] finds is available: loads it if it is loaded on
    /// demand, and waits for a load that is under way.
    pub(crate) async fn available(
        &self,
        name: &str,
        deadline: Option<Instant>,
    ) -> Result<Ready, Failure> {
        let patience = Patience {
            load: self.runner.load_wait,
            deadline,
        };
        let find = || self.choose(name);
        let available = self.runner.served.available(find, patience);
        self.runner.guard(None).wait(available).await
    }

    /// The moment at which the answer has to be there: within the time that the head allows, and
    /// within this one. A deadline that is too far off to be represented never comes.
    pub(crate) fn deadline(&self, within: Option<Duration>) -> Option<Instant> {
        let shorter = self.allowed.into_iter().chain(within).min();
        shorter.and_then(|time| self.arrived.checked_add(time))
    }

    /// Time for the answer of a graph: as the request says, or else as the graph's entry does.
    pub(crate) fn time_for(&self, graph: &Servable, within: Option<Duration>) -> Option<Duration> {
        let usual = graph.response_timeout().filter(|_| self.allowed.is_none());
        within.or(usual)
    }

    /// Guards waits until that deadline.
    pub(crate) fn guard(&self, within: Option<Duration>) -> Guard {
        self.runner.guard(self.deadline(within))
    }

    /// The name of the key, where there are keys.
    pub(crate) fn key(&self) -> Option<Arc<str>> {
        self.caller.as_ref().map(|caller| Arc::clone(caller.name()))
    }

    /// Returns true if the caller may use a graph, or an adapter of it.
    pub(crate) fn sees(&self, graph: &str, adapter: Option<&str>) -> bool {
        let caller = self.caller.as_ref();
        caller.is_none_or(|caller| caller.sees(graph, adapter))
    }

    /// Returns true if the caller is an operator.
    pub(crate) fn operates(&self) -> bool {
        let caller = self.caller.as_deref();
        caller.map_or(self.runner.is_open, Caller::administers)
    }

    /// Settles the account of the caller's key when it is dropped.
    pub(crate) fn settlement(&self) -> Option<Settlement> {
        self.caller.clone().map(Settlement)
    }

    /// The account of a run, which counts for the request and its key.
    pub(crate) fn account(&self) -> Account {
        let tally = Arc::clone(&self.entry.tally);
        if let Some(caller) = &self.caller {
            caller.is_tallied(Arc::clone(&tally));
        }
        Account {
            received: Some(self.arrived),
            tally,
            tenant: owner::tenant(self.caller.as_ref(), self.owner.as_ref()),
            terms: self.caller.as_ref().map(Caller::terms),
            ..Account::default()
        }
    }

    /// Returns true if its run is to be recorded, or if it asks for that wrongly.
    pub(crate) fn is_recorded(&self) -> bool {
        self.records.is_some()
    }

    /// Reads what is to be recorded of its run, if anything.
    pub(super) fn records(&self) -> Result<Option<RecordingOptions>, Failure> {
        let payloads = match self.records.as_ref().map(HeaderValue::as_bytes) {
            None => return Ok(None),
            Some(b"1") => false,
            Some(b"payloads") => true,
            Some(_) => {
                let message = format!("the header `{RECORD}` is neither `1` nor `payloads`");
                return Err(Failure::new(Cause::BadRequest, message));
            }
        };
        if !self.operates() {
            let message = format!("the header `{RECORD}` needs a key with the scope `admin`");
            return Err(Failure::new(Cause::Forbidden, message));
        }
        self.recording(payloads).map(Some)
    }

    /// The options of a recording, as the configuration allows them.
    pub(crate) fn recording(&self, payloads: bool) -> Result<RecordingOptions, Failure> {
        let servables = self.servables();
        let observation = servables.observation();
        if payloads && !observation.payloads {
            let message =
                "payloads are not recorded: `observation.payloads` of the configuration is `false`";
            return Err(Failure::new(Cause::Forbidden, message).of_field("payloads"));
        }
        Ok(RecordingOptions {
            payloads,
            redact: Arc::new(observation.redact.clone()),
        })
    }
}
