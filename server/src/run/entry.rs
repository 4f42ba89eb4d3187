//! The facts of a request that its log line, its counts and its trace tell. Handlers add those that
//! only they know.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use axum::http::{HeaderValue, Method};
use graphmill_calculators::payload::{Tallied, Tally};

use crate::{errors::Failure, listen::Exchange, observe::trace::RequestTrace};

/// The entry of a request in the log; the handler adds what only it knows.
pub(crate) type Entry = Arc<Facts>;

/// Facts about a request, for its line, its counts and its trace.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) id: Arc<str>,
    pub(crate) method: Method,
    /// Without the query, in which some clients send keys.
    pub(crate) path: String,
    pub(crate) received: Instant,
    /// The route, as it is written in the server.
    pub(crate) endpoint: String,
    pub(crate) model: OnceLock<String>,
    /// True if the answer was asked for as a stream of events.
    pub(crate) streams: OnceLock<bool>,
    /// The name of its key.
    pub(crate) key: OnceLock<Arc<str>>,
    /// Set when the graph has taken the request.
    pub(crate) entered: OnceLock<()>,
    /// True if the answer was kept from an earlier request; not set where answers are not kept.
    pub(crate) kept: OnceLock<bool>,
    /// When the first part of an answer that was generated left.
    pub(crate) answered: OnceLock<Instant>,
    /// The failure of the request, if there is one.
    pub(crate) failure: OnceLock<Failure>,
    /// The counts of what the request takes, which nodes keep.
    pub(crate) tally: Arc<Tally>,
    /// The request as the listener sees it.
    pub(crate) exchange: Option<Arc<Exchange>>,
    /// `None` where no traces are collected.
    pub(crate) trace: Option<RequestTrace>,
}

impl Facts {
    /// Returns true if the server is at fault, even if an answer had begun by then.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure
            .get()
            .is_some_and(|it| it.row().status.is_server_error())
    }

    /// Returns the time to the first part of an answer that language models generated.
    pub(crate) fn first_token(&self, tally: &Tallied) -> Option<Duration> {
        tally.first?;
        let answered = self.answered.get()?;
        Some(answered.duration_since(self.received))
    }

    /// Says which graph the request is for, and whether it asks for a stream of events.
    pub(crate) fn model(&self, name: &str, streams: bool) {
        self.model.get_or_init(|| name.to_owned());
        self.streams.get_or_init(|| streams);
    }

    /// Says that the graph has taken the request.
    pub(crate) fn entered(&self) {
        self.entered.get_or_init(|| ());
    }

    /// Says whether the answer was kept from an earlier request.
    pub(crate) fn was_kept(&self, kept: bool) {
        self.kept.get_or_init(|| kept);
    }

    /// Says that a part of the answer leaves: an event, a message, or all of it.
    pub(crate) fn answers(&self) {
        self.answered.get_or_init(Instant::now);
    }

    /// Says that the answer ended with an error.
    pub(crate) fn failed(&self, failure: &Failure) {
        self.failure.get_or_init(|| failure.clone());
    }

    /// The milliseconds that the answer took so far, by part: what is not known is left out. The
    /// form is that of the header `server-timing`.
    pub(crate) fn server_timing(&self) -> HeaderValue {
        let parts = self.parts().into_iter();
        let parts = parts.map(|(name, time)| format!("{name};dur={}", milliseconds(time)));
        let parts = parts.collect::<Vec<_>>().join(", ");
        HeaderValue::try_from(parts).expect("names and numbers")
    }

    /// The parts of an answer and what they took so far.
    pub(crate) fn parts(&self) -> Vec<(&'static str, Duration)> {
        let (tally, received) = (self.tally.read(), self.received);
        let prepare = tally.submitted;
        let prepare = prepare.map(|submitted| submitted.duration_since(received));
        let parts = [
            ("prepare", prepare),
            ("queue", tally.queued),
            ("prefill", tally.prefill),
            ("decode", tally.first.map(|_| tally.decoding)),
            ("ttft", self.first_token(&tally)),
            ("total", Some(received.elapsed())),
        ];
        let known = parts.into_iter();
        let known = known.filter_map(|(name, time)| Some((name, time?)));
        known.collect()
    }
}

/// A time in milliseconds, rounded to tenths.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}
