//! A POST that a graph answers: the body goes in as one packet, and what comes out is the answer.
//!
//! The status line waits for the first packet, so that whatever fails before it has its own status.
//! From then on the session belongs to the answer's body: a client that leaves drops the body, and
//! with it everything that works for it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, Uri},
    response::Response,
};
use graphmill_calculators::http::dialect::{Purpose, Target};
use percent_encoding::percent_decode_str;

mod answer;
mod body;
mod form;
pub(super) mod routes;
mod stream;

use body::ParsedBody;

use crate::{
    app::state::App,
    bodies::Share,
    errors::Failure,
    http::unknown_route,
    kserve::{self, Label},
    listen::ON_ITS_WAY,
    run::RequestContext,
    servable::Choice,
};

/// A request without its body.
struct Head {
    who: RequestContext,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    target: Option<Target>,
    /// Share of the body budget that its body holds.
    share: Arc<Share>,
}

/// Time for which a connection can tell, from its deadline on, that a body did not come.
const NOTICE: Duration = Duration::from_millis(10);

/// Splits a request into its head and its body, read as far as the limit allows.
async fn read(app: &App, request: Request) -> Result<(Head, Result<ParsedBody, Failure>), Failure> {
    let (parts, body) = request.into_parts();
    let head = Head {
        who: RequestContext::read(&app.runner, &parts.extensions, &parts.headers)?,
        target: parts.extensions.get().copied(),
        share: app.bodies.share(&parts.extensions),
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
    };
    let reading = async {
        let bytes = head.share.read(&head.headers, body).await?;
        let file = head.target.and_then(|target| target.dialect.file_field());
        let bytes = form::as_json(&head.headers, file, bytes, &head.share).await?;
        ParsedBody::parse(bytes, &head.share).await
    };
    // A body that does not come is told of by the connection.
    let due = head.who.deadline(None);
    let due = due.map(|at| at.max(Instant::now() + ON_ITS_WAY) + NOTICE);
    let body = app.runner.guard(due).wait(reading).await;
    Ok((head, body))
}

/// A path of a dialect. Clients of servers with one model may name none.
pub(crate) async fn endpoint(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, body) = read(&app, request).await?;
    let body = body?;
    let purpose = head.target.and_then(|target| target.purpose);
    let is_unnamed = purpose.is_some_and(Purpose::needs_no_model) && body.names_no_model();
    let servables = app.servables();
    let sees = |graph: &str| head.who.sees(graph);
    let unnamed = is_unnamed.then(|| servables.unnamed(sees)).flatten();
    let name = match unnamed {
        Some(servable) => servable.name().to_owned(),
        None => body.model()?.to_owned(),
    };
    answer::answer(&app, &name, head, body).await
}

/// A path of a dialect that names the graph, and perhaps its version.
pub(crate) async fn of_named(
    app: &App,
    name: &str,
    version: &str,
    request: Request,
) -> Result<Response, Failure> {
    let (head, body) = read(app, request).await?;
    let mut body = body?;
    let choose = |name: &str| head.who.choose(name);
    let (versioned, graph) = kserve::find_version(choose, name, version)?;
    body.is_for(name, &Label::of(&graph).version)?;
    answer::answer(app, &versioned, head, body).await
}

/// Any other path. The graph is named by `model`, or by the path itself; where neither names one,
/// the path is unknown.
pub(crate) async fn any_path(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, body) = read(&app, request).await?;
    let path = percent_decode_str(head.uri.path()).decode_utf8_lossy();
    let behind_prefix = path.splitn(3, '/').nth(2).unwrap_or_default();
    let named = body.as_ref().ok().and_then(|body| body.model().ok());
    let name = named.unwrap_or(behind_prefix).to_owned();
    if app.servables().named(&name, &Choice::Newest).is_none() {
        return Err(unknown_route(head.method, head.uri).await);
    }
    head.who.choose(&name)?;
    answer::answer(&app, &name, head, body?).await
}
