//! A POST that a graph answers: the body goes in as one packet, and what comes out is the answer.
//!
//! The status line waits for the first packet, so that whatever fails before it has its own status.
//! From then on the session belongs to the answer's body: a client that leaves drops the body, and
//! with it everything that works for it.

use std::{ops::RangeInclusive, sync::Arc, time::Instant};

use axum::{
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header},
    response::{IntoResponse as _, Response},
};
use graphmill_calculators::{
    http::dialects,
    payload::{Account, HttpRequestPayload, HttpResponse},
};
use serde_json::Value;

mod body;
pub(super) mod routes;
mod stream;

use body::ParsedBody;

use crate::{
    http::{access::Entry, sse, state::App, unknown_route},
    keys::{self, Caller, Settlement},
    listen::Arrival,
    observe::{request_id::Id, trace::RunTrace},
    rescue::{Cause, Failure},
    servable::{Answer, Asked, Named, Servable, Trace},
};

/// What of a request's head the graph sees, and what accompanies it.
struct Head {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    arrived: Instant,
    id: Id,
    entry: Entry,
    caller: Option<Arc<Caller>>,
}

impl Head {
    /// The graph of this name, if the request may use it.
    fn find(&self, app: &App, name: &str) -> Result<Named, Failure> {
        app.find(name, self.caller.as_deref())
    }
}

/// Splits a request into its head and its body, read as far as the limit allows.
async fn read(app: &App, request: Request) -> (Head, Result<ParsedBody, Failure>) {
    let (parts, body) = request.into_parts();
    let extension = "the layers around every route set it";
    let head = Head {
        arrived: parts
            .extensions
            .get::<Arrival>()
            .map_or_else(Instant::now, |arrival| arrival.0),
        id: parts.extensions.get::<Id>().expect(extension).clone(),
        entry: parts.extensions.get::<Entry>().expect(extension).clone(),
        caller: parts.extensions.get::<Arc<Caller>>().cloned(),
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
    };
    let body = match app.read_body(&head.headers, body).await {
        Ok(bytes) => ParsedBody::parse(bytes).await,
        Err(failure) => Err(failure),
    };
    (head, body)
}

/// A path that every graph with a language model serves: the body has to be right.
pub(crate) async fn endpoint(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, body) = read(&app, request).await;
    let body = body?;
    let named = head.find(&app, body.model()?)?;
    answer(&app, named, head, body).await
}

/// A path where clients of servers with one model name none.
pub(crate) async fn about_a_prompt(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, body) = read(&app, request).await;
    let body = body?;
    let servables = app.servables();
    let unnamed = servables.unnamed().filter(|_| body.names_no_model());
    let named = match unnamed {
        Some(servable) => head.find(&app, servable.name())?,
        None => head.find(&app, body.model()?)?,
    };
    answer(&app, named, head, body).await
}

/// Any other path. The graph is named by `model`, or by the path itself; where neither names one,
/// the path is unknown.
pub(crate) async fn any_path(
    State(app): State<Arc<App>>,
    Path(path): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, body) = read(&app, request).await;
    let named = body.as_ref().ok().and_then(|body| body.model().ok());
    let name = named.unwrap_or(&path);
    if app.servables().named(name).is_none() {
        return Err(unknown_route(head.method, head.uri).await);
    }
    let named = head.find(&app, name)?;
    answer(&app, named, head, body?).await
}

/// The header that says what an answer took.
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// How long a `traceparent` is: of later versions longer than today's.
const TRACEPARENT_BYTES: RangeInclusive<usize> = 55..=256;

/// The trace that a request belongs to: ours where traces are collected, else its sender's.
fn trace(head: &Head, graph: &str, body: &ParsedBody) -> Trace {
    let Some(request) = head.entry.trace() else {
        let given = head.headers.get("traceparent");
        let given = given
            .and_then(|value| value.to_str().ok())
            .filter(|value| TRACEPARENT_BYTES.contains(&value.len()));
        return Trace {
            traceparent: given.map(Into::into),
            run: None,
        };
    };
    let path = head.uri.path();
    Trace {
        traceparent: Some(request.traceparent()),
        run: RunTrace::new(request, graph, path, &body.json, head.entry.tally()),
    }
}

async fn answer(
    app: &App,
    named: Named,
    head: Head,
    body: ParsedBody,
) -> Result<Response, Failure> {
    let Named { servable, adapter } = named;
    let streams = body.json.short("stream").and_then(Value::as_bool);
    head.entry.model(servable.name(), streams == Some(true));
    let prompt_field = body.prompt_field();
    let dialect = dialects::of_path(head.uri.path());
    let deadline = body.deadline(&head.headers, head.arrived)?;
    // Keys of this server are not for graphs.
    let has_key = head.caller.is_some();
    let headers = head
        .headers
        .iter()
        .filter(|(name, _)| !has_key || !keys::has_key(name))
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
    let trace = trace(&head, servable.name(), &body);
    let payload = HttpRequestPayload {
        method: head.method.to_string(),
        uri: head.uri.to_string(),
        headers: headers.collect(),
        body: body.bytes,
        json: Some(body.json),
        adapter,
    };
    let caller = head.caller;
    if let Some(caller) = &caller {
        caller.is_tallied(head.entry.tally());
    }
    let asked = Asked {
        id: head.id,
        deadline,
        key: caller.as_ref().map(|caller| Arc::clone(caller.name())),
        account: Account {
            tally: head.entry.tally(),
            terms: caller.as_ref().map(Caller::terms),
        },
        payload,
        trace,
    };
    // Before the answer's end is sent: the next request may follow at once.
    let settlement = caller.clone().map(Settlement);
    let mut answer = Answer::open(&app.stage, &app.running, &servable, asked).await?;
    head.entry.entered();
    let mut headers = HeaderMap::new();
    let first = loop {
        let first = answer.first().await;
        let first = first.map_err(|failure| {
            let failure = failure.of_prompt(prompt_field);
            when_to_retry(failure, &servable, caller.as_deref())
        });
        match first? {
            HttpResponse::Header { name, value } => {
                if let Ok(value) = HeaderValue::try_from(value) {
                    headers.insert(name, value);
                }
            }
            first => break first,
        }
    };
    let mut response = match first {
        HttpResponse::Body {
            content_type,
            bytes,
        } => {
            let content_type = HeaderValue::from_static(content_type);
            let timing = HeaderValue::try_from(head.entry.server_timing());
            let timing = timing.expect("names and numbers");
            let headers = [
                (header::CONTENT_TYPE, content_type),
                (SERVER_TIMING, timing),
            ];
            (headers, bytes).into_response()
        }
        first => sse::response(stream::body(
            first,
            answer,
            (head.entry, settlement),
            app.options.keep_alive,
            dialect,
        )),
    };
    response.headers_mut().extend(headers);
    Ok(response)
}

/// Says when a request that found no room may find some: when the limit of its key has it again, or
/// when the queue of the model has been worked off.
fn when_to_retry(failure: Failure, servable: &Servable, caller: Option<&Caller>) -> Failure {
    match failure.cause {
        Cause::RateLimited => match caller.and_then(Caller::retry_after) {
            Some(wait) => failure.after(wait),
            None => failure,
        },
        Cause::QueueFull => failure.after(servable.queue_time()),
        _ => failure,
    }
}
