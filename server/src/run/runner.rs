//! State that all runs share: the graphs, the lists of requests and sessions, and the end of the
//! server.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::{HeaderName, HeaderValue};
use tokio::sync::watch;

use super::{Guard, Running};
use crate::{
    errors::{Cause, Failure},
    keys::Caller,
    servable::{Choice, Named, Patience, Ready, Servables, Served},
    sessions::{RecordingOptions, Sessions},
    stage::Stage,
};

/// The header of a request that is to be recorded: `1`, or `payloads` for what its packets carry,
/// too.
pub(crate) const RECORD: HeaderName = HeaderName::from_static("x-graphmill-record");

/// Finds graphs for requests and lists their runs.
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

impl Runner {
    /// The graphs that are served now. A request asks once, so that it sees one configuration.
    pub(crate) fn servables(&self) -> Arc<Servables> {
        self.served.now()
    }

    /// Finds a graph or adapter by its name, if the key of the request is for it: of a graph with
    /// versions the newest that answers.
    pub(crate) fn find(&self, name: &str, caller: Option<&Caller>) -> Result<Named, Failure> {
        self.choose(name, &Choice::Newest, caller)
    }

    /// The same, with a choice among versions.
    pub(crate) fn choose(
        &self,
        name: &str,
        choice: &Choice,
        caller: Option<&Caller>,
    ) -> Result<Named, Failure> {
        let sees = |graph: &str, adapter: Option<&str>| {
            caller.is_none_or(|caller| caller.sees(graph, adapter))
        };
        let servables = self.servables();
        let found = servables.find(name, choice, sees);
        if let Some(caller) = caller
            && found.is_err()
            && servables.named(name, choice).is_some()
        {
            caller.model_refused();
        }
        found
    }

    /// Waits until what [`Runner::choose`] finds is available: loads it if it is loaded on demand, and
    /// waits for a load that is under way.
    pub(crate) async fn available(
        &self,
        name: &str,
        choice: &Choice,
        caller: Option<&Caller>,
        deadline: Option<Instant>,
    ) -> Result<Ready, Failure> {
        let patience = Patience {
            load: self.load_wait,
            deadline,
        };
        let find = || self.choose(name, choice, caller);
        let available = self.served.available(find, patience);
        self.guard(None).wait(available).await
    }

    /// Guards waits until a deadline, if there is one.
    pub(crate) fn guard(&self, deadline: Option<Instant>) -> Guard {
        Guard::new(&self.stage, deadline)
    }

    /// Reads what a request wants to have recorded that has this value of [`RECORD`].
    pub(super) fn records(
        &self,
        header: &HeaderValue,
        caller: Option<&Caller>,
    ) -> Result<RecordingOptions, Failure> {
        let payloads = match header.as_bytes() {
            b"1" => false,
            b"payloads" => true,
            _ => {
                let message = format!("the header `{RECORD}` is neither `1` nor `payloads`");
                return Err(Failure::new(Cause::BadRequest, message));
            }
        };
        if !caller.map_or(self.is_open, Caller::administers) {
            let message = format!("the header `{RECORD}` needs a key with the scope `admin`");
            return Err(Failure::new(Cause::Forbidden, message));
        }
        self.recording(payloads)
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
