//! POST requests that graphs answer. The body becomes one packet, and the output packets become the
//! answer.
//!
//! The status line waits for the first packet, so that failures before it have their own status.
//! From then on the session belongs to the body of the answer: if the client leaves, the body is
//! dropped, and with it everything that works for it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, header, request::Parts},
    response::IntoResponse as _,
};
use graphmill_calculators::{
    http::{
        dialect::{Dialect, Family, Framing, Purpose, Target},
        dialect_table,
    },
    payload::{HttpRequestPayload, HttpResponse},
};
use graphmill_dialects::bodies;
use graphmill_llm::NamedAdapter;
use percent_encoding::percent_decode_str;
use serde_json::Value;

mod adapters;
pub(super) mod body;
mod choice;
mod residence;
pub(super) mod routes;
mod stream;

use body::ParsedBody;
use choice::choose_graph;
use residence::Residence;
use stream::AnswerEvents;

use crate::{
    app::state::App,
    bodies::Share,
    conversations::{Listener, Turn},
    errors::{Cause, Failure, Result},
    http::{
        AppState, HttpResult,
        timings::{self, SERVER_TIMING, Timings},
        unknown_route,
    },
    keys::{self, Caller},
    kserve::{self, Label},
    listen::ON_ITS_WAY,
    run::{GraphRun, RequestContext},
    servable::Servable,
    telemetry::trace::RunTrace,
};

/// A request without its body.
struct RequestHead {
    who: RequestContext,
    parts: Parts,
    target: Option<Target>,
    /// The body's share of the budget of all bodies.
    share: Arc<Share>,
    /// Receives the answer, too, for a stored conversation.
    listener: Option<Listener>,
}

/// Additional time after the deadline, in which the connection can report that a body did not
/// arrive.
const NOTICE: Duration = Duration::from_millis(10);

/// Splits a request into its head and its body, read as far as the limit allows.
async fn read(app: &App, request: Request) -> Result<(RequestHead, Result<ParsedBody>)> {
    let (parts, body) = request.into_parts();
    let head = RequestHead {
        who: RequestContext::read(&app.runner, &parts.extensions, &parts.headers)?,
        target: parts.extensions.get().copied(),
        share: app.bodies.share(&parts.extensions),
        parts,
        listener: None,
    };
    let reading = async {
        let headers = &head.parts.headers;
        let bytes = head.share.read(headers, body).await?;
        let file = head.target.and_then(|target| target.dialect.file_field());
        ParsedBody::parse(headers, file, bytes, &head.share).await
    };
    // The connection reports a body that does not arrive.
    let due = head.who.deadline(None);
    let due = due.map(|at| at.max(Instant::now() + ON_ITS_WAY) + NOTICE);
    let body = app.runner.guard(due).wait(reading).await;
    Ok((head, body))
}

/// Answers a request at a path of a dialect. Clients of servers with a single model may name no
/// graph.
pub(crate) async fn endpoint(State(app): AppState, request: Request) -> HttpResult {
    let (mut head, body) = read(&app, request).await?;
    let body = body?;
    let sees = |graph: &str| head.who.sees(graph, None);
    let target = head.target;
    let meant = target.map(|target| app.servables().meant(target, &body.json, sees));
    head.target = meant;
    let answered = answer_meant(&app, head, body).await;
    let refused = |failure: Failure| {
        let mut refused = failure.into_response();
        if let Some(target) = meant {
            // The path alone does not determine the dialect.
            refused.extensions_mut().insert(target);
        }
        refused
    };
    Ok(answered.unwrap_or_else(refused))
}

/// Answers a request in the dialect of its target.
async fn answer_meant(app: &App, mut head: RequestHead, mut body: ParsedBody) -> HttpResult {
    let name = choose_graph(app, &head, &mut body, false)?;
    let dialect = head.target.map(|target| target.dialect);
    if dialect.is_some_and(Dialect::keeps_conversations) {
        let graph = head.who.choose(&name)?.servable;
        let owner = head.who.owner.clone();
        if let Some(json) = Arc::get_mut(&mut body.json) {
            match app.conversations.begin(owner, graph.graph(), json)? {
                Turn::End(answer) => return Ok(Json(answer).into_response()),
                Turn::Say(listener) => head.listener = listener,
            }
        }
    }
    answer(app, &name, head, body).await
}

/// Fields that distinguish the dialects of `/invocations`.
const INVOCATIONS: [(&str, &str); 4] = [
    ("messages", bodies::CHAT),
    ("prompt", bodies::COMPLETIONS),
    ("documents", bodies::RERANK),
    ("input", bodies::EMBEDDINGS),
];

/// Answers a request at SageMaker's path, whose clients need not name the graph.
pub(crate) async fn invocation(State(app): AppState, request: Request) -> HttpResult {
    let (mut head, body) = read(&app, request).await?;
    let mut body = body?;
    let found = INVOCATIONS.iter().find(|(field, _)| body.json.has(field));
    let dialect =
        found.and_then(|(_, name)| dialect_table::all().find(|it| it.endpoint() == *name));
    let dialect = dialect.ok_or_else(|| {
        let fields = INVOCATIONS.map(|(field, _)| field).join("`, `");
        let message = format!("the body has none of the fields `{fields}`: expected one of them");
        Failure::new(Cause::BadRequest, message).with_code("missing_required_parameter")
    })?;
    let purpose = Some(Purpose::Answer);
    head.target = Some(Target { dialect, purpose });
    let name = choose_graph(&app, &head, &mut body, true)?;
    answer(&app, &name, head, body).await
}

/// Answers a request at a path that names the graph, and perhaps its version.
pub(crate) async fn answer_named(
    app: &App,
    name: &str,
    version: &str,
    request: Request,
) -> HttpResult {
    let (head, body) = read(app, request).await?;
    let mut body = body?;
    let choose = |name: &str| head.who.choose(name);
    let (versioned, graph) = kserve::find_version(choose, name, version)?;
    body.is_for(name, &Label::from(&*graph).version)?;
    answer(app, &versioned, head, body).await
}

/// Answers a request at any other path. `model`, or the path itself, names the graph. If neither
/// does, the path is unknown.
pub(crate) async fn any_path(State(app): AppState, request: Request) -> HttpResult {
    let (head, body) = read(&app, request).await?;
    let path = percent_decode_str(head.parts.uri.path()).decode_utf8_lossy();
    let behind_prefix = path.splitn(3, '/').nth(2).unwrap_or_default();
    let named = body.as_ref().ok().and_then(|body| body.model().ok());
    let name = named.unwrap_or(behind_prefix).to_owned();
    if app.servables().named(&name, None).is_none() {
        return Err(unknown_route(head.parts.method, head.parts.uri).await);
    }
    head.who.choose(&name)?;
    answer(&app, &name, head, body?).await
}

/// Runs a graph with a request, and waits for the first packet of its answer.
async fn answer(app: &App, name: &str, mut head: RequestHead, mut body: ParsedBody) -> HttpResult {
    let who = &head.who;
    let graph = who.choose(name)?.servable;
    let dialect = head.target.map(|target| target.dialect);
    body.fill(head.target, &graph);
    let streams = body.json.short("stream").and_then(Value::as_bool);
    let streams = streams.or_else(|| dialect.map(Dialect::streams_by_default));
    who.entry.model(graph.name(), streams == Some(true));
    let residence = Residence::read(&head, &graph, &body.json)?;
    if residence.unloads
        && let Some(answer) = residence.answer(&body.json)?
    {
        graph.leave();
        return Ok(answer);
    }
    let prompt_field = body.prompt_field();
    let deadline = who.deadline(who.time_for(&graph, body.timeout()));
    let ready = who.available(name, deadline).await?;
    let adapters = adapters::find(&head, &ready, &body.json)?;
    let servable = Arc::clone(&ready.servable);
    if residence.unloads {
        servable.leave();
    }
    if let Some(answer) = residence.answer(&body.json)? {
        return Ok(answer);
    }
    let body = with_images(app, &head, deadline, body).await?;
    let request = who.entry.trace.as_ref();
    let trace = request.and_then(|request| {
        let (graph, tally) = (servable.name(), Arc::clone(&who.entry.tally));
        RunTrace::new(request, graph, head.target, &body.json, tally)
    });
    let payload = payload(&head, body, adapters);
    // Before the end of the answer is sent, because the next request may follow at once.
    let settlement = who.settlement();
    let mut run = GraphRun::open_http(who, ready, payload, deadline, trace).await?;
    let (headers, first) = first_response(&mut run).await.map_err(|failure| {
        let failure = failure.with_prompt_field(prompt_field);
        when_to_retry(failure, &servable, who.caller.as_deref())
    })?;
    let with_timings = timings::are_asked(&head.parts.uri);
    let mut response = match first {
        HttpResponse::Body {
            content_type,
            bytes,
        } => {
            who.entry.answers();
            if let Some(listener) = &mut head.listener {
                listener(&bytes);
            }
            let bytes = if with_timings && let Some(summary) = run.finish().await {
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
        first => {
            let events = AnswerEvents {
                next: Some(first),
                listener: head.listener,
                run,
                entry: head.who.entry,
                _settlement: settlement,
                keep_alive: app.options.keep_alive,
                dialect,
                framing: dialect.map_or(Framing::Events, Dialect::framing),
                with_timings,
                named: 0,
            };
            events.into_response()
        }
    };
    response.headers_mut().extend(headers);
    Ok(residence.mark_ignored(response))
}

/// Fetches the images that a text request names.
async fn with_images(
    app: &App,
    head: &RequestHead,
    deadline: Option<Instant>,
    mut body: ParsedBody,
) -> Result<ParsedBody> {
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

/// Returns the part of a request that the graph sees, without keys of this server.
fn payload(
    head: &RequestHead,
    body: ParsedBody,
    adapters: Arc<[NamedAdapter]>,
) -> HttpRequestPayload {
    let has_key = head.who.caller.is_some();
    let seen = head.parts.headers.iter();
    let seen = seen.filter(|(name, _)| !has_key || !keys::has_key(name));
    let headers =
        seen.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
    HttpRequestPayload {
        method: head.parts.method.to_string(),
        headers: headers.collect(),
        body: body.bytes,
        json: Some(body.json),
        adapters,
        ..HttpRequestPayload::new(head.parts.uri.to_string(), head.target)
    }
}

/// Waits for the headers of an answer, and the first packet after them.
pub(crate) async fn first_response(run: &mut GraphRun) -> Result<(HeaderMap, HttpResponse)> {
    let mut headers = HeaderMap::new();
    loop {
        match run.next_response().await? {
            Some(HttpResponse::Header { name, value }) => {
                if let Ok(value) = HeaderValue::try_from(value) {
                    headers.insert(name, value);
                }
            }
            Some(first) => return Ok((headers, first)),
            None => return Err(Failure::no_answer(run.summary())),
        }
    }
}

/// Adds the time to retry after to a failure: when the key's limit allows a request again, or when
/// the model's queue should be empty.
pub(crate) fn when_to_retry(
    failure: Failure,
    servable: &Servable,
    caller: Option<&Caller>,
) -> Failure {
    match failure.cause {
        Cause::RateLimited => {
            let wait = caller.and_then(Caller::retry_after);
            failure.after(wait.unwrap_or_else(|| servable.queue_time()))
        }
        Cause::QueueFull => failure.after(servable.queue_time()),
        _ => failure,
    }
}
