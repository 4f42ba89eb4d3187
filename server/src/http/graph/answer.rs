//! The answer of a graph to a request: opened with what the graph may see of it, and told in whole or
//! as a stream.

use std::{sync::Arc, time::Instant};

use axum::{
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use graphmill_calculators::{
    http::dialect::Family,
    payload::{HttpRequestPayload, HttpResponse},
};

use super::{Head, body::ParsedBody, stream};
use crate::{
    app::state::App,
    errors::{Cause, Failure},
    http::{
        sse,
        timings::{self, SERVER_TIMING, Timings},
    },
    keys::{self, Caller},
    observe::trace::RunTrace,
    run::Answer,
    servable::Servable,
};

/// Runs a graph with a request, and waits for the first packet of its answer.
pub(super) async fn answer(
    app: &App,
    name: &str,
    head: Head,
    body: ParsedBody,
) -> Result<Response, Failure> {
    let who = &head.who;
    let graph = who.choose(name)?.servable;
    who.entry.model(graph.name(), body.is_for_stream());
    let prompt_field = body.prompt_field();
    let deadline = who.deadline(body.timeout());
    let ready = who.available(name, deadline).await?;
    let servable = Arc::clone(&ready.servable);
    let body = with_images(app, &head, deadline, body).await?;
    let request = who.entry.trace();
    let trace = request.and_then(|request| {
        let (graph, tally) = (servable.name(), who.entry.tally());
        RunTrace::new(request, graph, head.target, &body.json, tally)
    });
    let payload = payload(&head, body, ready.adapter.clone());
    // Before the answer's end is sent: the next request may follow at once.
    let settlement = who.settlement();
    let mut answer = Answer::open(who, ready, payload, deadline, trace).await?;
    let (headers, first) = begin(&mut answer).await.map_err(|failure| {
        let failure = failure.of_prompt(prompt_field);
        when_to_retry(failure, &servable, who.caller.as_deref())
    })?;
    let with_timings = timings::are_asked(&head.uri);
    let mut response = match first {
        HttpResponse::Body {
            content_type,
            bytes,
        } => {
            who.entry.answers();
            let bytes = if with_timings && let Some(summary) = answer.summary().await {
                Timings::new(&who.entry, Some(summary)).within(bytes)
            } else {
                bytes
            };
            let content_type = HeaderValue::from_static(content_type);
            let headers = [
                (header::CONTENT_TYPE, content_type),
                (SERVER_TIMING, who.entry.server_timing()),
            ];
            (headers, bytes).into_response()
        }
        first => sse::response(stream::body(
            first,
            answer,
            (head.who.entry, settlement),
            stream::Form {
                keep_alive: app.options.keep_alive,
                dialect: head.target.map(|target| target.dialect),
                with_timings,
            },
        )),
    };
    response.headers_mut().extend(headers);
    Ok(response)
}

/// Fetches the images of a request for text.
async fn with_images(
    app: &App,
    head: &Head,
    deadline: Option<Instant>,
    mut body: ParsedBody,
) -> Result<ParsedBody, Failure> {
    let family = head.target.map(|target| target.dialect.family());
    let has_images = matches!(family, Some(Family::Text(_)));
    let Some(media) = app.media.as_ref().filter(|_| has_images) else {
        return Ok(body);
    };
    let fetching = media.fetch(&body.json, head.who.owner.as_ref(), &head.share);
    if let Some(json) = app.runner.guard(deadline).wait(fetching).await? {
        body.json = Arc::new(json);
    }
    Ok(body)
}

/// The part of a request that the graph sees. Keys of this server are not for graphs.
fn payload(head: &Head, body: ParsedBody, adapter: Option<Arc<str>>) -> HttpRequestPayload {
    let has_key = head.who.caller.is_some();
    let seen = head.headers.iter();
    let seen = seen.filter(|(name, _)| !has_key || !keys::has_key(name));
    let headers =
        seen.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
    HttpRequestPayload {
        method: head.method.to_string(),
        headers: headers.collect(),
        body: body.bytes,
        json: Some(body.json),
        adapter,
        ..HttpRequestPayload::new(head.uri.to_string(), head.target)
    }
}

/// Waits for the headers that an answer begins with, and the packet behind them.
async fn begin(answer: &mut Answer) -> Result<(HeaderMap, HttpResponse), Failure> {
    let mut headers = HeaderMap::new();
    loop {
        match answer.first().await? {
            HttpResponse::Header { name, value } => {
                if let Ok(value) = HeaderValue::try_from(value) {
                    headers.insert(name, value);
                }
            }
            first => return Ok((headers, first)),
        }
    }
}

/// Says when a request that found no room may find some: when the limit of its key has it again, or
/// when the queue of the model has been worked off, as far as what waits is its own or others'.
fn when_to_retry(failure: Failure, servable: &Servable, caller: Option<&Caller>) -> Failure {
    match failure.cause {
        Cause::RateLimited => {
            let wait = caller.and_then(Caller::retry_after);
            failure.after(wait.unwrap_or_else(|| servable.queue_time()))
        }
        Cause::QueueFull => failure.after(servable.queue_time()),
        _ => failure,
    }
}
