//! `GET /v3/graphs/{name}/tap`: the packets of some streams, as they come.

use std::sync::Arc;

use axum::{
    extract::{Path, RawQuery, State},
    response::Response,
};
use bytes::{Bytes, BytesMut};
use graphmill_engine::{Packet, Plan, codec, shortened};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::{
    SHOWN_BYTES,
    query::{Query, missing, rate, wrong},
    sessions,
    viewing::{self, Source},
};
use crate::{
    app::state::App,
    config::Observation,
    errors::{Cause, Failure},
    http::{asker::Asker, sse},
    sessions::{Tapped, Taps},
};

/// The most streams of one tap: those of a large graph.
const MAX_STREAMS: usize = 64;

/// The most bytes of JSON that are shown of a payload: more than a person reads, and little enough
/// for a page that shows many.
const MAX_PAYLOAD_BYTES: usize = 32 << 10;

/// The most packets in one write.
const MAX_PACKETS: usize = 32;

pub(super) async fn tap(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path(name): Path<String>,
    query: RawQuery,
) -> Result<Response, Failure> {
    let query = Query::read(query, &["stream", "session", "rate", "payloads"])?;
    let plan = super::graph(&app, &name)?.plan()?;
    let streams = query.all("stream");
    check(&plan, &streams)?;
    let session = match query.one("session")? {
        Some(id) => Some(sessions::of_graph(&app, &name, id)?.id.to_string()),
        None => None,
    };
    let share = query.one("rate")?.unwrap_or("1");
    let share = rate(share.parse().unwrap_or(f64::NAN))?;
    let observation = app.servables().observation().clone();
    let payloads = query.boolean("payloads")?.unwrap_or(true) && observation.payloads;
    asker.audit("tap", &name, "done", None);
    let taps = app.sessions.tap(&name, session, streams, share);
    let shows = Arc::new(Observation {
        payloads,
        ..observation
    });
    viewing::answer(&app, Packets { taps, shows })
}

/// Refuses streams that the graph does not have.
fn check(plan: &Plan, streams: &[String]) -> Result<(), Failure> {
    if streams.is_empty() {
        return Err(missing("stream", "it names what is tapped"));
    }
    if streams.len() > MAX_STREAMS {
        let why = format!("is given {} times, at most {MAX_STREAMS}", streams.len());
        return Err(wrong("stream", &why));
    }
    let has = |stream: &str| plan.streams().any(|other| other == stream);
    let Some(unknown) = streams.iter().find(|stream| !has(stream)) else {
        return Ok(());
    };
    let names: Vec<&str> = plan.streams().take(MAX_STREAMS).collect();
    let message = format!(
        "the graph has no stream `{}`; there are `{}`",
        shortened(unknown, SHOWN_BYTES),
        names.join("`, `")
    );
    Err(Failure::new(Cause::NotFound, message).of_field("stream"))
}

struct Packets {
    taps: Taps,
    shows: Arc<Observation>,
}

impl Source for Packets {
    async fn next(&mut self) -> Option<Bytes> {
        let first = self.taps.next().await?;
        let more = std::iter::from_fn(|| self.taps.try_next());
        let packets: Vec<Tapped> = std::iter::once(first)
            .chain(more)
            .take(MAX_PACKETS)
            .collect();
        let named = packets.into_iter();
        let named = named.map(|packet| (self.taps.stream(packet.stream).to_owned(), packet));
        let named: Vec<(String, Tapped)> = named.collect();
        let dropped = self.taps.dropped();
        let shows = Arc::clone(&self.shows);
        // Payloads may be large, and this thread serves requests.
        let written = spawn_blocking(move || write(&named, dropped, &shows));
        written.await.ok()
    }
}

/// The events of packets, and of how many there were besides.
fn write(packets: &[(String, Tapped)], dropped: u64, shows: &Observation) -> Bytes {
    let mut out = BytesMut::new();
    for (stream, tapped) in packets {
        let mut event = described(stream, &tapped.packet, shows);
        event["session"] = json!(tapped.session);
        sse::write_named_event(&mut out, "packet", &event.to_string());
    }
    if dropped > 0 {
        let event = json!({ "count": dropped });
        sse::write_named_event(&mut out, "dropped", &event.to_string());
    }
    out.freeze()
}

/// A packet of a stream, with what it carries.
pub(super) fn described(stream: &str, packet: &Packet, shows: &Observation) -> Value {
    let (payload, truncated) = shown(packet, shows);
    json!({
        "stream": stream,
        "timestamp": codec::timestamp_to_json(packet.time),
        "type": packet.type_info().name(),
        "payload": payload,
        "truncated": truncated,
    })
}

/// What a packet carries, as far as it is shown, and whether that is not all.
fn shown(packet: &Packet, shows: &Observation) -> (Value, bool) {
    let encoded = shows.payloads.then(|| codec::encode(packet)).flatten();
    let Some(mut payload) = encoded else {
        return (Value::Null, false);
    };
    shows.redact.value(&mut payload);
    let text = payload.to_string();
    if text.len() <= MAX_PAYLOAD_BYTES {
        return (payload, false);
    }
    let end = text.floor_char_boundary(MAX_PAYLOAD_BYTES);
    (text[..end].into(), true)
}
