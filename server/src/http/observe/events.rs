//! `GET /v3/graphs/{name}/events`: the numbers of a graph or of a session as a snapshot, and then
//! what changes.

use std::sync::Arc;

use axum::{
    extract::{Path, RawQuery, State},
    response::Response,
};
use bytes::{Bytes, BytesMut};
use serde_json::Value;
use tokio::sync::watch;

use super::{
    query::Query,
    sessions,
    viewing::{self, Source},
};
use crate::{
    app::state::App,
    errors::Failure,
    http::sse,
    sessions::{Followed, Frame},
};

pub(super) async fn of_graph(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    query: RawQuery,
) -> Result<Response, Failure> {
    let query = Query::read(query, &["session"])?;
    let followed = if let Some(id) = query.one("session")? {
        Followed::Session(Arc::clone(&sessions::of_graph(&app, &name, id)?.id))
    } else {
        // Why there is nothing to see, where that is so.
        super::graph(&app, &name)?.plan()?;
        Followed::Graph(name)
    };
    let events = Events {
        frames: app.sessions.follow(&followed, &app.served),
        shown: None,
        seq: 0,
    };
    viewing::answer(&app, events)
}

struct Events {
    frames: watch::Receiver<Option<Arc<Frame>>>,
    /// The frame that the viewer has.
    shown: Option<Arc<Frame>>,
    seq: u64,
}

impl Events {
    /// The event that brings the viewer from the frame that it has to this one.
    fn event(&mut self, frame: &Arc<Frame>) -> (&'static str, Value) {
        let before = self.shown.as_ref().filter(|shown| shown.is_alike(frame));
        let Some(before) = before else {
            // The first, or the graph was loaded anew.
            self.seq = 0;
            return ("snapshot", frame.snapshot());
        };
        self.seq += 1;
        ("delta", frame.delta(before, self.seq))
    }
}

impl Source for Events {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let frame = self.frames.borrow_and_update().clone();
            let is_shown = |frame: &Arc<Frame>| {
                let mut shown = self.shown.iter();
                shown.any(|shown| Arc::ptr_eq(shown, frame))
            };
            if let Some(frame) = frame.filter(|frame| !is_shown(frame)) {
                let (name, event) = self.event(&frame);
                self.shown = Some(frame);
                let mut out = BytesMut::new();
                sse::write_named_event(&mut out, name, &event.to_string());
                return Some(out.freeze());
            }
            self.frames.changed().await.ok()?;
        }
    }
}
