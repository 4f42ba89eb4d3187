//! One log line and one count for each request, written when its answer has been sent or its client has left.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Instant,
};

use axum::{
    body::{Body, HttpBody},
    extract::{MatchedPath, Request, State},
    http::{Method, StatusCode},
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use super::{
    metrics::{Metrics, Taken},
    request_id::Id,
};

/// What the line of a request says; the handler adds what only it knows.
#[derive(Clone, Debug)]
pub(crate) struct Entry(Arc<Facts>);

#[derive(Debug)]
struct Facts {
    id: Arc<str>,
    method: Method,
    path: String,
    received: Instant,
    /// The route, as it is written in the server.
    endpoint: String,
    model: OnceLock<String>,
    /// Whether the answer was asked for as a stream of events.
    streams: OnceLock<bool>,
    /// Set when the graph has taken the request.
    entered: OnceLock<()>,
    /// What went wrong after the status line was sent.
    failure: OnceLock<String>,
}

impl Entry {
    /// Says which graph the request is for, and whether it asks for a stream of events.
    pub(crate) fn model(&self, name: &str, streams: bool) {
        self.0.model.get_or_init(|| name.to_owned());
        self.0.streams.get_or_init(|| streams);
    }

    /// Says that the graph has taken the request.
    pub(crate) fn entered(&self) {
        self.0.entered.get_or_init(|| ());
    }

    /// Says that the answer ended with an error.
    pub(crate) fn failed(&self, message: &str) {
        self.0.failure.get_or_init(|| message.to_owned());
    }

    fn write(&self, status: Option<StatusCode>, whole: bool) {
        let facts = &*self.0;
        let milliseconds = facts.received.elapsed().as_millis() as u64;
        let status = status.map_or("-".to_owned(), |status| status.as_u16().to_string());
        let model = facts.model.get().map_or("-", String::as_str);
        let end = match (facts.failure.get(), whole) {
            (Some(failure), _) => format!("failed: {failure}"),
            (None, true) => "done".to_owned(),
            (None, false) => "client left".to_owned(),
        };
        let (id, method, path) = (&facts.id, &facts.method, &facts.path);
        // Probes come every second and say nothing.
        if path.starts_with("/v2/health/") || ["/health", "/ping"].contains(&path.as_str()) {
            tracing::debug!(%id, %status, milliseconds, "{method} {path} {end}");
        } else {
            tracing::info!(%id, %model, %status, milliseconds, "{method} {path} {end}");
        }
    }
}

/// Writes the line of each request.
pub(crate) async fn layer(
    State(metrics): State<Arc<Metrics>>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = request
        .extensions()
        .get::<Id>()
        .expect("the layer outside this one sets it");
    let entry = Entry(Arc::new(Facts {
        id: Arc::clone(&id.0),
        method: request.method().clone(),
        path: request.uri().path().to_owned(),
        endpoint: request
            .extensions()
            .get::<MatchedPath>()
            .map_or("unknown", MatchedPath::as_str)
            .to_owned(),
        received: Instant::now(),
        model: OnceLock::new(),
        streams: OnceLock::new(),
        entered: OnceLock::new(),
        failure: OnceLock::new(),
    }));
    request.extensions_mut().insert(entry.clone());
    // Dropped without a status when the client leaves before there is one.
    metrics.begins();
    let mut line = Line {
        metrics,
        entry,
        status: None,
        whole: false,
    };
    let response = next.run(request).await;
    line.status = Some(response.status());
    line.whole = response.body().is_end_stream();
    response.map(|body| Body::new(Watched { body, line }))
}

/// Writes the line when it is dropped.
struct Line {
    metrics: Arc<Metrics>,
    entry: Entry,
    status: Option<StatusCode>,
    whole: bool,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.entry.write(self.status, self.whole);
        let facts = &*self.entry.0;
        self.metrics.ends(
            facts.model.get().map_or("", String::as_str),
            &facts.endpoint,
            self.status.map(|status| status.as_u16()),
            facts.received.elapsed(),
        );
        if let Some(graph) = facts.model.get() {
            let refused = self.status.is_some_and(|status| status.as_u16() >= 400);
            self.metrics.graph_ends(
                graph,
                facts.streams.get() == Some(&true),
                match (facts.entered.get(), facts.failure.get()) {
                    (None, _) => Taken::Rejected,
                    (Some(()), None) if !refused => Taken::Answered,
                    (Some(()), _) => Taken::Failed,
                },
            );
        }
    }
}

/// A body that knows whether it was sent to its end.
struct Watched {
    body: Body,
    line: Line,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.line.whole = matches!(frame, Poll::Ready(None)) || self.body.is_end_stream();
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
