//! Shared by streaming answers: keep-alives, and an end when the server stops.

use std::{convert::Infallible, time::Duration};

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::timeout,
};

use crate::{app::state::App, errors::Failure, http::sse, stage::Stage};

/// What gives events to a viewer.
pub(super) trait Source: Send + 'static {
    /// Waits for something to say, and says it; none when nothing more comes. May be dropped before
    /// it is ready: nothing is lost.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// A viewer's place, and when it has to leave it.
struct Viewing<S> {
    source: S,
    stage: watch::Receiver<Stage>,
    keep_alive: Duration,
    _place: OwnedSemaphorePermit,
}

/// The answer that has these events, until its client leaves.
pub(super) fn answer(app: &App, source: impl Source) -> Result<Response, Failure> {
    let viewing = Viewing {
        source,
        stage: app.stage.clone(),
        keep_alive: app.options.keep_alive,
        _place: app.sessions.viewer()?,
    };
    let events = stream::unfold(viewing, |mut viewing| async move {
        let bytes = viewing.next().await?;
        Some((Ok::<_, Infallible>(bytes), viewing))
    });
    Ok(sse::response(axum::body::Body::from_stream(events)))
}

impl<S: Source> Viewing<S> {
    async fn next(&mut self) -> Option<Bytes> {
        let Self {
            source,
            stage,
            keep_alive,
            ..
        } = self;
        tokio::select! {
            biased;
            // A page that is left open must not hold up the end of the server.
            _ = stage.wait_for(|stage| *stage >= Stage::Draining) => None,
            said = timeout(*keep_alive, source.next()) => match said {
                Ok(said) => said,
                Err(_) => Some(Bytes::from_static(sse::PING)),
            },
        }
    }
}
