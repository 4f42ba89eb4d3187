//! One log line and one count for each request, made when its answer has been sent or its client
//! has left.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Instant,
};

use axum::{
    body::{Body, HttpBody},
    extract::{MatchedPath, Request, State},
    http::{Method, StatusCode, header},
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tracing::Level;

use super::AppState;
use crate::{
    app::state::App,
    errors::Failure,
    keys::KeyName,
    metrics::RequestOutcome,
    run::{Facts, UNKNOWN, milliseconds},
    telemetry::{log, request_id::Id, trace::RequestTrace},
};

/// Writes the log line of a request, without fields that are not known.
fn write(facts: &Facts, status: Option<StatusCode>, whole: bool) {
    let tally = facts.tally.read();
    let has_prompt = tally.prompt > 0;
    let failure = facts.failure.get();
    /// Computes the fields of a line only if the line is logged.
    macro_rules! line {
        ($level:ident) => {
            tracing::event!(
                Level::$level,
                request_id = &*facts.id,
                graph = facts.model.get().map(String::as_str),
                key = facts.key.get().map(|key| &**key),
                status = status.map(|status| status.as_u16()),
                error_code = failure.and_then(|failure| failure.code().map(log::shown)),
                param = failure.and_then(|failure| failure.param.as_deref().map(log::shown)),
                prompt_tokens = has_prompt.then_some(tally.prompt),
                cached_tokens = has_prompt.then_some(tally.cached),
                generated_tokens = has_prompt.then_some(tally.generated),
                queue_ms = tally.queued.map(milliseconds),
                ttft_ms = facts.first_token(&tally).map(milliseconds),
                total_ms = milliseconds(facts.received.elapsed()),
                trace_id = facts.trace.as_ref().and_then(RequestTrace::id),
                "{} {} {}",
                log::shown(facts.method.as_str()),
                log::shown(&facts.path),
                end(facts, whole)
            )
        };
    }
    // Probes and pages ask every few seconds, so their lines have the lowest level.
    if is_probe(&facts.path) || is_view(facts, status) {
        line!(DEBUG);
    } else if facts.has_failed() || status.is_some_and(|status| status.is_server_error()) {
        line!(WARN);
    } else {
        line!(INFO);
    }
}

/// Describes the end of a request.
fn end(facts: &Facts, whole: bool) -> String {
    match facts.failure.get() {
        Some(failure) if facts.has_failed() => {
            format!("failed: {}", log::without_texts(&failure.message))
        }
        Some(failure) => format!("refused: {}", log::without_values(&failure.message)),
        None if whole => "done".to_owned(),
        None if facts.exchange.as_ref().is_some_and(|it| it.is_unread()) => {
            "cut off: the client did not read the answer in time".to_owned()
        }
        None => "client left".to_owned(),
    }
}

/// Returns true for paths of health checks, which are requested again and again.
fn is_probe(path: &str) -> bool {
    path.starts_with("/v2/health/")
        || path.starts_with("/grpc.health.")
        || ["/health", "/ping", "/v1/health"].contains(&path)
        || (path.starts_with("/v2/models/") && path.ends_with("/ready"))
}

/// Prefixes of paths that pages and scrapers request.
#[rustfmt::skip]
const WATCHED: [&str; 6] = ["/metrics", "/page/", "/v3/models", "/v3/sessions", "/v3/status", "/v3/graphs"];

/// Returns true for a successful request of a page or scraper that watches the server; there are
/// many of these.
fn is_view(facts: &Facts, status: Option<StatusCode>) -> bool {
    let is_watched = facts.path == "/" || WATCHED.iter().any(|it| facts.path.starts_with(it));
    let went_well = |status: StatusCode| status.is_success() || status == StatusCode::NOT_MODIFIED;
    facts.method == Method::GET && is_watched && status.is_some_and(went_well)
}

/// Writes the line of each request.
pub(crate) async fn layer(State(app): AppState, mut request: Request, next: Next) -> Response {
    let id = request.extensions().get::<Id>();
    let id = id.expect("the layer outside this one sets it");
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map(MatchedPath::as_str);
    let path = request.uri().path();
    let traces = app.traces.as_ref();
    let traces = traces.filter(|_| !is_probe(path) && path != "/metrics");
    let trace = traces
        .map(|traces| RequestTrace::begin(traces, request.method(), route, request.headers()));
    let entry = Arc::new(Facts {
        id: Arc::clone(&id.text),
        method: request.method().clone(),
        path: path.to_owned(),
        endpoint: route.unwrap_or(UNKNOWN).to_owned(),
        received: Instant::now(),
        model: OnceLock::new(),
        streams: OnceLock::new(),
        key: OnceLock::new(),
        entered: OnceLock::new(),
        kept: OnceLock::new(),
        answered: OnceLock::new(),
        failure: OnceLock::new(),
        tally: Arc::default(),
        exchange: request.extensions().get().cloned(),
        trace,
    });
    request.extensions_mut().insert(entry.clone());
    // If the client leaves before there is a status, the future is dropped without one.
    app.metrics.begins();
    let mut line = LogLine {
        app,
        entry,
        status: None,
        whole: false,
    };
    let response = next.run(request).await;
    let failure = response.extensions().get::<Failure>();
    if let Some(failure) = failure {
        line.entry.failed(failure);
    }
    if let Some(KeyName(key)) = response.extensions().get::<KeyName>() {
        line.entry.key.get_or_init(|| Arc::clone(key));
    }
    // An answer of gRPC has HTTP status 200 even if it is a failure.
    line.status = Some(failure.map_or(response.status(), |failure| failure.row().status));
    line.whole = response.body().is_end_stream();
    let length = response.headers().get(header::CONTENT_LENGTH);
    let left = length.and_then(|length| length.to_str().ok()?.parse().ok());
    response.map(|body| {
        Body::new(WatchedBody {
            body,
            line,
            left,
            timed: false,
        })
    })
}

/// The log line of a request, written on drop.
struct LogLine {
    app: Arc<App>,
    entry: Arc<Facts>,
    status: Option<StatusCode>,
    whole: bool,
}

impl Drop for LogLine {
    fn drop(&mut self) {
        let facts = &*self.entry;
        let failure = facts.failure.get();
        write(facts, self.status, self.whole);
        let metrics = &self.app.metrics;
        metrics.ends(
            facts.model.get().map_or("", String::as_str),
            &facts.endpoint,
            self.status.map(|status| status.as_u16()),
            facts.received.elapsed(),
            facts.trace.as_ref().and_then(RequestTrace::id),
        );
        if let Some(trace) = &facts.trace {
            trace.end(facts, self.status, self.whole);
        }
        if let Some(graph) = facts.model.get() {
            let refused = self.status.is_some_and(|status| status.as_u16() >= 400);
            let taken = match (facts.entered.get(), failure) {
                (None, _) => RequestOutcome::Rejected,
                (Some(()), None) if !refused => RequestOutcome::Answered,
                (Some(()), _) => RequestOutcome::Failed,
            };
            metrics.graph_ends(graph, facts.streams.get() == Some(&true), taken);
            let well = taken == RequestOutcome::Answered && self.whole;
            let tally = facts.tally.read();
            let statistics = &self.app.statistics;
            let kept = facts.kept.get().copied();
            statistics.ended(graph, well, facts.received.elapsed(), tally.queued, kept);
        }
    }
}

/// Response body that records whether it was sent to its end.
struct WatchedBody {
    body: Body,
    line: LogLine,
    /// Bytes still to be sent, if the length is known. hyper does not poll such a body for its end.
    left: Option<u64>,
    /// True once the time to the first token was counted.
    timed: bool,
}

impl WatchedBody {
    /// Counts the time to the first token, once that token was sent.
    fn time(&mut self) {
        let facts = &*self.line.entry;
        if !self.timed
            && let Some(graph) = facts.model.get()
            && let Some(time) = facts.first_token(&facts.tally.read())
        {
            self.line.app.metrics.first_token(graph, time);
            self.timed = true;
        }
    }
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        let is_last = match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                let sent = frame.data_ref().map_or(0, |data| data.len() as u64);
                self.left = self.left.map(|left| left.saturating_sub(sent));
                self.time();
                frame.is_trailers() || self.left == Some(0)
            }
            Poll::Ready(None) => true,
            _ => false,
        };
        self.line.whole = is_last || self.body.is_end_stream();
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
