//! A POST that a graph answers: the body goes in as one packet, and what comes out is the answer.
//!
//! The status line waits for the first packet, so that whatever fails before it has its own status.
//! From then on the session belongs to the answer's body: a client that leaves drops the body, and
//! with it everything that works for it.

use std::{
    future::pending,
    ops::RangeInclusive,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header},
    response::{IntoResponse as _, Response},
};
use graphmill_calculators::{
    http::{dialect::Dialect, dialect_table},
    payload::{Account, HttpRequestPayload, HttpResponse},
};
use serde_json::Value;
use tokio::time::sleep_until;

mod body;
mod form;
pub(super) mod routes;
mod stream;

use body::ParsedBody;

use crate::{
    errors::{Cause, Failure},
    http::{
        access::Entry,
        bodies::Share,
        observe::RECORD,
        sse,
        state::App,
        timings::{self, SERVER_TIMING, Timings},
        unknown_route,
    },
    keys::{self, Caller, Settlement},
    kserve::{self, Label},
    listen::{Arrival, ON_ITS_WAY, time_allowed},
    observe::{request_id::Id, trace::RunTrace},
    owner::{self, Owner},
    run::{Answer, RequestInfo},
    servable::{Choice, Servable},
    stage::cut,
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
    owner: Option<Owner>,
    /// Share of the body budget that its body holds.
    share: Arc<Share>,
}

/// The header with which a client says which of its requests belong together.
const SESSION: HeaderName = HeaderName::from_static("x-session-id");

impl Head {
    /// How the request chooses among versions: as all of its session, or else by its own id.
    fn choice(&self) -> Choice {
        let session = self.headers.get(SESSION);
        let session = session.and_then(|value| value.to_str().ok());
        Choice::By(session.map_or_else(|| Arc::clone(&self.id.text), Into::into))
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
        owner: Owner::of(&parts.extensions),
        share: app.bodies.share(&parts.extensions),
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
    };
    let mut stage = app.stage.clone();
    let reading = async {
        let bytes = head.share.read(&head.headers, body).await?;
        let dialect = dialect_table::of_path(head.uri.path());
        let file = dialect.and_then(Dialect::file_field);
        let bytes = form::as_json(&head.headers, file, bytes, &head.share).await?;
        ParsedBody::parse(bytes, &head.share).await
    };
    let body = tokio::select! {
        // A body that does not come is told of by the connection.
        biased;
        read = reading => read,
        () = cut(&mut stage) => {
            Err(Failure::new(Cause::Draining, "the server is stopping"))
        }
        () = overdue(&head) => {
            Err(Failure::new(Cause::Deadline, "the deadline of the request passed"))
        }
    };
    (head, body)
}

/// How long a connection has, from its deadline, to tell that a body did not come.
const NOTICE: Duration = Duration::from_millis(10);

/// Waits until a body must have been read and scanned, as far as the head says.
async fn overdue(head: &Head) {
    // What is no time is refused when the body has been read.
    let allowed = time_allowed(&head.headers).ok().flatten();
    match allowed.and_then(|allowed| head.arrived.checked_add(allowed)) {
        Some(deadline) => {
            let due = deadline.max(Instant::now() + ON_ITS_WAY) + NOTICE;
            sleep_until(due.into()).await;
        }
        None => pending().await,
    }
}

/// A path that every graph with a language model serves: the body has to be right.
pub(crate) async fn endpoint(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, body) = read(&app, request).await;
    let body = body?;
    let name = body.model()?.to_owned();
    answer(&app, &name, head, body).await
}

/// A path where clients of servers with one model name none.
pub(crate) async fn about_a_prompt(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, body) = read(&app, request).await;
    let body = body?;
    let servables = app.servables();
    let caller = head.caller.as_deref();
    let sees = |graph: &str| caller.is_none_or(|caller| caller.sees(graph, None));
    let unnamed = servables.unnamed(sees).filter(|_| body.names_no_model());
    let name = match unnamed {
        Some(servable) => servable.name().to_owned(),
        None => body.model()?.to_owned(),
    };
    answer(&app, &name, head, body).await
}

/// A path of a dialect that names the graph, and perhaps its version.
pub(crate) async fn of_named(
    app: &App,
    name: &str,
    version: &str,
    request: Request,
) -> Result<Response, Failure> {
    let (head, body) = read(app, request).await;
    let mut body = body?;
    let (choice, caller) = (head.choice(), head.caller.as_deref());
    let graph = app.choose(name, &choice, caller)?.servable;
    let versioned = kserve::versioned(&graph, name, version)?;
    let graph = app.choose(&versioned, &choice, caller)?.servable;
    body.is_for(name, &Label::of(&graph).version)?;
    answer(app, &versioned, head, body).await
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
    let name = named.unwrap_or(&path).to_owned();
    if app.servables().named(&name, &Choice::Newest).is_none() {
        return Err(unknown_route(head.method, head.uri).await);
    }
    let choice = head.choice();
    app.choose(&name, &choice, head.caller.as_deref())?;
    answer(&app, &name, head, body?).await
}

/// How long a `traceparent` is: of later versions longer than today's.
const TRACEPARENT_BYTES: RangeInclusive<usize> = 55..=256;

/// The trace that a request belongs to: ours where traces are collected, else its sender's. With
/// what makes spans of its run, where they are sent.
fn trace(head: &Head, graph: &str, body: &ParsedBody) -> (Option<Arc<str>>, Option<RunTrace>) {
    let Some(request) = head.entry.trace() else {
        let given = head.headers.get("traceparent");
        let given = given
            .and_then(|value| value.to_str().ok())
            .filter(|value| TRACEPARENT_BYTES.contains(&value.len()));
        return (given.map(Into::into), None);
    };
    let path = head.uri.path();
    let run = RunTrace::new(request, graph, path, &body.json, head.entry.tally());
    (Some(request.traceparent()), run)
}

/// Fetches the images of a request in a dialect.
async fn with_images(
    app: &App,
    head: &Head,
    is_in_dialect: bool,
    deadline: Option<Instant>,
    mut body: ParsedBody,
) -> Result<ParsedBody, Failure> {
    let Some(media) = app.media.as_ref().filter(|_| is_in_dialect) else {
        return Ok(body);
    };
    let mut stage = app.stage.clone();
    let late = async {
        match deadline {
            Some(deadline) => sleep_until(deadline.into()).await,
            None => pending().await,
        }
    };
    let fetched = tokio::select! {
        fetched = media.fetch(&body.json, head.owner.as_ref(), &head.share) => fetched?,
        () = cut(&mut stage) => {
            return Err(Failure::new(Cause::Draining, "the server is stopping"));
        }
        () = late => {
            return Err(Failure::new(Cause::Deadline, "the deadline of the request passed"));
        }
    };
    if let Some(json) = fetched {
        body.json = Arc::new(json);
    }
    Ok(body)
}

async fn answer(app: &App, name: &str, head: Head, body: ParsedBody) -> Result<Response, Failure> {
    let choice = head.choice();
    let caller = head.caller.as_deref();
    let named = app.choose(name, &choice, caller)?;
    let streams = body.json.short("stream").and_then(Value::as_bool);
    head.entry
        .model(named.servable.name(), streams == Some(true));
    let prompt_field = body.prompt_field();
    let dialect = dialect_table::of_path(head.uri.path());
    let deadline = body.deadline(&head.headers, head.arrived)?;
    let ready = app.available(name, &choice, caller, deadline).await?;
    let (servable, adapter) = (Arc::clone(&ready.servable), ready.adapter.clone());
    let body = with_images(app, &head, dialect.is_some(), deadline, body).await?;
    // Keys of this server are not for graphs.
    let has_key = head.caller.is_some();
    let headers = head
        .headers
        .iter()
        .filter(|(name, _)| !has_key || !keys::has_key(name))
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
    let (traceparent, trace) = trace(&head, servable.name(), &body);
    let records = app.records(head.headers.get(RECORD), caller)?;
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
    let tenant = owner::tenant(caller.as_ref(), head.owner.as_ref());
    let request = RequestInfo {
        id: head.id,
        deadline,
        owner: head.owner,
        account: Account {
            tally: head.entry.tally(),
            tenant,
            terms: caller.as_ref().map(Caller::terms),
            priority: 0,
            recorded: None,
        },
        traceparent,
        records,
    };
    // Before the answer's end is sent: the next request may follow at once.
    let settlement = caller.clone().map(Settlement);
    let with_timings = timings::are_asked(&head.uri);
    let lists = (&app.running, &app.sessions);
    let mut answer = Answer::open(&app.stage, lists, ready, request, payload, trace).await?;
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
            head.entry.answers();
            let bytes = if with_timings && let Some(summary) = answer.summary().await {
                Timings::new(&head.entry, Some(summary)).within(bytes)
            } else {
                bytes
            };
            let headers = [
                (header::CONTENT_TYPE, content_type),
                (SERVER_TIMING, head.entry.server_timing()),
            ];
            (headers, bytes).into_response()
        }
        first => sse::response(stream::body(
            first,
            answer,
            (head.entry, settlement),
            stream::Form {
                keep_alive: app.options.keep_alive,
                dialect,
                with_timings,
            },
        )),
    };
    response.headers_mut().extend(headers);
    Ok(response)
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
