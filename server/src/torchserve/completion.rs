//! Completions of graphs that take HTTP requests, returned as plain text.

use std::{future::ready, sync::Arc};

use axum::http::HeaderMap;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use graphmill_calculators::{
    http::{
        Completions,
        dialect::{Purpose, Target},
    },
    payload::{HttpRequestPayload, HttpResponse, JsonBody, NamedAdapter},
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    Prediction, PredictionBody,
    parts::Prompt,
    predict::{PredictOptions, begin},
    tensors::TEXT,
};
use crate::{
    bodies::Share,
    errors::{Cause, Failure, Result},
    http,
    run::{GraphRun, RequestContext},
    servable::Ready,
    telemetry::trace::RunTrace,
};

/// The text of an answer, or of one of its events.
#[derive(Deserialize)]
struct Completion {
    choices: Vec<CompletionChoice>,
}

#[derive(Deserialize)]
struct CompletionChoice {
    text: String,
}

/// Returns the text of an answer or of an event.
fn text(json: &[u8]) -> Result<Bytes> {
    let completion: Completion = serde_json::from_slice(json).map_err(|error| {
        let why = format!("the graph's answer is no completion: {error}");
        Failure::new(Cause::NoAnswer, why)
    })?;
    let text = completion.choices.into_iter().next();
    Ok(text.map_or_else(Bytes::new, |choice| choice.text.into()))
}

/// Runs a graph with a prompt, and returns the text of its answer.
pub(super) async fn complete(
    who: &RequestContext,
    ready: Ready,
    prompt: Prompt,
    asked: PredictOptions,
    share: &Arc<Share>,
) -> Result<Prediction> {
    let servable = Arc::clone(&ready.servable);
    let (name, streams) = (servable.name().to_owned(), asked.streams);
    who.entry.model(&name, streams);
    let deadline = who.deadline(asked.within);
    let mut lease = share.lease();
    let write = move || {
        let Prompt { field, json } = prompt;
        lease.take(json.len())?;
        let mut fields = asked.parameters;
        fields.insert("model".to_owned(), name.into());
        fields.insert("stream".to_owned(), streams.into());
        let fields = Value::Object(fields).to_string();
        // The prompt stays text, because it can have millions of numbers.
        let body = format!("{},\"{field}\":{json}}}", &fields[..fields.len() - 1]);
        let body = lease.keeps(body.into());
        Ok::<_, Failure>((JsonBody::scan(body.clone())?, body))
    };
    let written = share.beside(write, "the prompt could not be written");
    let (json, body) = written.await??;
    let target = Some(Target {
        dialect: &Completions,
        purpose: Some(Purpose::Answer),
    });
    let trace = who.entry.trace.as_ref().and_then(|trace| {
        let tally = Arc::clone(&who.entry.tally);
        RunTrace::new(trace, servable.name(), target, &json, tally)
    });
    let payload = HttpRequestPayload {
        body,
        json: Some(Arc::new(json)),
        adapters: NamedAdapter::list(ready.adapter.clone()),
        ..HttpRequestPayload::new(who.entry.path.clone(), target)
    };
    // Before the end of the answer is sent, because the next request may follow at once.
    let settlement = who.settlement();
    let mut run = GraphRun::open_http(who, ready, payload, deadline, trace).await?;
    let begun = http::first_response(&mut run).await;
    let (headers, first) =
        begun.map_err(|it| http::when_to_retry(it, &servable, who.caller.as_deref()))?;
    if let HttpResponse::Body { bytes, .. } = first {
        who.entry.answers();
        return Ok(Prediction {
            media_type: TEXT,
            headers,
            body: PredictionBody::Whole(text(&bytes)?),
        });
    }
    stream_events(who, run, settlement, headers, first).await
}

/// Streams the texts of events. `kept` is dropped at the end of the stream.
async fn stream_events<S: Send + 'static>(
    who: &RequestContext,
    run: GraphRun,
    kept: S,
    headers: HeaderMap,
    first: HttpResponse,
) -> Result<Prediction> {
    let state = (Some(first), run, kept);
    let pieces = stream::try_unfold(state, |(mut first, mut run, kept)| async move {
        loop {
            let response = match first.take() {
                None => run.next_response().await?,
                first => first,
            };
            match response {
                Some(HttpResponse::Event(data)) => {
                    let piece = text(data.as_bytes())?;
                    return Ok(Some((piece, (None, run, kept))));
                }
                Some(HttpResponse::Done | HttpResponse::End) => return Ok(None),
                Some(HttpResponse::Header { .. }) => {}
                Some(HttpResponse::Body { .. } | HttpResponse::NamedEvent { .. }) | None => {
                    let why = "the graph's answer is no stream of a completion";
                    return Err(Failure::new(Cause::NoAnswer, why));
                }
            }
        }
    });
    let pieces = pieces.filter(|piece| ready(!piece.as_ref().is_ok_and(Bytes::is_empty)));
    begin(pieces.boxed(), headers, who.entry.clone()).await
}
