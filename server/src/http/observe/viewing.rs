//! Shared by streaming answers: keep-alives, and an end when the server stops.

use std::convert::Infallible;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::time::timeout;

use crate::{app::state::App, errors::Failure, http::sse, stage::Stage};

/// What gives events to a viewer.
pub(super) trait Source: Send + 'static {
    /// Waits for something to say, and says it; none when nothing more comes. May be dropped before
    /// it is ready: nothing is lost.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// The answer that has these events, until its client leaves.
pub(super) fn answer(app: &App, source: impl Source) -> Result<Response, Failure> {
    let place = app.sessions.viewer()?;
    let keep_alive = app.options.keep_alive;
    let events = stream::unfold((source, place), move |(mut source, place)| async move {
        let said = timeout(keep_alive, source.next()).await;
        let bytes = said.unwrap_or(Some(Bytes::from_static(sse::PING)))?;
        Some((Ok::<_, Infallible>(bytes), (source, place)))
    });
    let mut stage = app.stage.clone();
    // A page that is left open must not hold up the end of the server.
    let draining = async move {
        let _ = stage.wait_for(|stage| *stage >= Stage::Draining).await;
    };
    let events = events.take_until(Box::pin(draining));
    Ok(sse::response(Body::from_stream(events)))
}
