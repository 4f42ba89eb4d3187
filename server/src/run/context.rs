//! The sender of a request, as the layers and the head describe it, and the graphs that it may use.

use std::{
    ops::RangeInclusive,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use graphmill_calculators::payload::Account;
use tokio::sync::watch;

use super::{Facts, Guard, Running};
use crate::{
    errors::{Cause, Failure},
    keys::{Caller, Settlement},
    listen::{Exchange, time_allowed},
    owner::{self, Owner},
    servable::{Ready, ResolvedGraph, Servable, Servables, ServedGraphs},
    sessions::{RecordingOptions, Sessions},
    shutdown::Stage,
    telemetry::{request_id::Id, trace::RequestTrace},
};

/// Header that requests a recording: `1`, or `payloads` to include the payloads of packets.
pub(crate) const RECORD: HeaderName = HeaderName::from_static("x-graphmill-record");

/// Header by which a client marks requests that belong together.
const SESSION: &str = "x-session-id";

/// Range of lengths of a `traceparent`. Later versions are longer than the current one.
const TRACEPARENT_BYTES: RangeInclusive<usize> = 55..=256;

/// State that all runs share: the graphs, the lists of requests and sessions, and the stage of the
/// server.
pub(crate) struct Runner {
    pub(crate) served: Arc<ServedGraphs>,
    pub(crate) running: Arc<Running>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) stage: watch::Receiver<Stage>,
    /// Maximum time that a request waits for a graph to be loaded.
    pub(crate) load_wait: Duration,
    /// True if all clients are operators, because there are no keys and no separate listener for
    /// operators.
    pub(crate) is_open: bool,
    /// True if requests may contain chat templates.
    pub(crate) trusts_templates: bool,
}

/// The sender of a request, and limits on its answer.
pub(crate) struct RequestContext {
    pub(crate) runner: Arc<Runner>,
    pub(super) id: Id,
    pub(crate) entry: Arc<Facts>,
    pub(crate) caller: Option<Arc<Caller>>,
    pub(crate) owner: Option<Owner>,
    arrived: Instant,
    /// Time limit of the answer in the head, if any.
    allowed: Option<Duration>,
    /// Word that chooses among versions: the same for all requests of a client's session, else the
    /// request's id.
    word: Arc<str>,
    /// Trace of the request: this server's if traces are collected, else the sender's.
    pub(super) traceparent: Option<Arc<str>>,
    /// Value of the header [`RECORD`].
    records: Option<HeaderValue>,
}

impl RequestContext {
    /// Reads the extensions that the layers have set, and the head.
    ///
    /// # Errors
    /// If the deadline in the head is not valid.
    pub(crate) fn read(
        runner: &Arc<Runner>,
        extensions: &Extensions,
        headers: &HeaderMap,
    ) -> Result<Self, Failure> {
        let extension = "the layers around all routes set it";
        let id = extensions.get::<Id>().expect(extension).clone();
        let entry = extensions.get::<Arc<Facts>>().expect(extension).clone();
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let word = text(SESSION).map_or_else(|| Arc::clone(&id.text), Into::into);
        let given = text("traceparent").filter(|it| TRACEPARENT_BYTES.contains(&it.len()));
        let ours = entry.trace.as_ref().map(RequestTrace::traceparent);
        let traceparent = ours.or_else(|| given.map(Into::into));
        let exchange = extensions.get::<Arc<Exchange>>();
        Ok(Self {
            runner: Arc::clone(runner),
            caller: extensions.get::<Arc<Caller>>().cloned(),
            owner: Owner::from_extensions(extensions),
            arrived: exchange.map_or_else(Instant::now, |exchange| exchange.arrived),
            allowed: time_allowed(headers)?,
            word,
            traceparent,
            records: headers.get(RECORD).cloned(),
            id,
            entry,
        })
    }

    /// Returns the graphs that are served now. A request calls it once and so sees one
    /// configuration.
    pub(crate) fn servables(&self) -> Arc<Servables> {
        self.runner.served.now()
    }

    /// Finds a graph or adapter by its name, if the caller may use it. Of a graph with versions,
    /// returns the newest that answers.
    pub(crate) fn find(&self, name: &str) -> Result<ResolvedGraph, Failure> {
        self.find_by(name, None)
    }

    /// Finds a graph or adapter like [`RequestContext::find`], but chooses the version for this
    /// request.
    pub(crate) fn choose(&self, name: &str) -> Result<ResolvedGraph, Failure> {
        self.find_by(name, Some(&self.word))
    }

    fn find_by(&self, name: &str, word: Option<&str>) -> Result<ResolvedGraph, Failure> {
        let servables = self.servables();
        let found = servables.find(name, word, |graph, adapter| self.sees(graph, adapter));
        if let Some(caller) = &self.caller
            && found.is_err()
            && servables.named(name, word).is_some()
        {
            caller.model_refused();
        }
        found
    }

    /// Waits until the graph that [`RequestContext::choose`] finds is available. Loads an on-demand
    /// graph, or waits for a running load.
    pub(crate) async fn available(
        &self,
        name: &str,
        deadline: Option<Instant>,
    ) -> Result<Ready, Failure> {
        let (runner, find) = (&self.runner, || self.choose(name));
        let available = runner.served.available(find, runner.load_wait, deadline);
        runner.guard(None).wait(available).await
    }

    /// Returns the deadline of the answer, from the time limit in the head and from `within`.
    /// `None` if neither is set, or the deadline is too far in the future.
    pub(crate) fn deadline(&self, within: Option<Duration>) -> Option<Instant> {
        let shorter = self.allowed.into_iter().chain(within).min();
        shorter.and_then(|time| self.arrived.checked_add(time))
    }

    /// Returns the time limit of a graph's answer: from the request, or else from the graph's
    /// entry.
    pub(crate) fn time_for(&self, graph: &Servable, within: Option<Duration>) -> Option<Duration> {
        let usual = graph.response_timeout().filter(|_| self.allowed.is_none());
        within.or(usual)
    }

    /// Returns a guard for waits, with the deadline of `within`.
    pub(crate) fn guard(&self, within: Option<Duration>) -> Guard {
        self.runner.guard(self.deadline(within))
    }

    /// Returns the name of the key; `None` without keys.
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

    /// Returns a guard that settles the account of the caller's key on drop.
    pub(crate) fn settlement(&self) -> Option<Settlement> {
        self.caller.clone().map(Settlement)
    }

    /// Returns the account of a run, which counts for the request and its key.
    pub(crate) fn account(&self) -> Account {
        let tally = Arc::clone(&self.entry.tally);
        if let Some(caller) = &self.caller {
            caller.set_tally(Arc::clone(&tally));
        }
        Account {
            received: Some(self.arrived),
            tally,
            tenant: owner::tenant(self.caller.as_ref(), self.owner.as_ref()),
            terms: self.caller.as_ref().map(Caller::terms),
            trusts_templates: self.runner.trusts_templates,
            ..Account::default()
        }
    }

    /// Returns true if the request has the header [`RECORD`], even an invalid one.
    pub(crate) fn is_recorded(&self) -> bool {
        self.records.is_some()
    }

    /// Returns the recording options of the request; `None` if it has no such header.
    pub(super) fn records(&self) -> Result<Option<RecordingOptions>, Failure> {
        let payloads = match self.records.as_ref().map(HeaderValue::as_bytes) {
            None => return Ok(None),
            Some(b"1") => false,
            Some(b"payloads") => true,
            Some(_) => {
                let message = format!("the header `{RECORD}` must be `1` or `payloads`");
                return Err(Failure::new(Cause::BadRequest, message));
            }
        };
        if !self.operates() {
            let message = format!("the header `{RECORD}` needs a key with the scope `admin`");
            return Err(Failure::new(Cause::Forbidden, message));
        }
        self.recording(payloads).map(Some)
    }

    /// Returns the options of a recording, as far as the configuration allows payloads.
    pub(crate) fn recording(&self, payloads: bool) -> Result<RecordingOptions, Failure> {
        let servables = self.servables();
        let observation = servables.observation();
        if payloads && !observation.payloads {
            let message =
                "payloads are not recorded: `observation.payloads` of the configuration is `false`";
            return Err(Failure::new(Cause::Forbidden, message).with_field("payloads"));
        }
        Ok(RecordingOptions {
            payloads,
            redact: Arc::new(observation.redact.clone()),
        })
    }
}
