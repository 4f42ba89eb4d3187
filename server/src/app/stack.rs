//! The layers around a request, outermost first, each with the reason for its position.

use std::{any::Any, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    http::{Method, Uri},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use percent_encoding::percent_decode_str;
use tower::{ServiceBuilder, util::MapRequest};
use tower_http::{catch_panic::CatchPanicLayer, normalize_path::NormalizePath};

use crate::{
    app::state::App,
    errors::{Cause, Failure},
    grpc,
    http::{self, Side, Targets, access, dialect_errors},
    keys::{self, Gate, Permission},
    listen,
    origin_checks::{self, SitePolicy},
    shutdown::Stage,
    telemetry::{log, request_id},
};

/// Builds the service of a listener for REST.
pub(super) fn rest(app: &Arc<App>, audience: Side, site: SitePolicy) -> Router {
    let web = app.options.web;
    let routes = http::routes(audience, web);
    let protocol = Protocol::Rest(Targets::new());
    let service = stacked(app, routes, http::needs(web), site, protocol);
    let prefix = app.options.api_prefix.clone();
    let service = MapRequest::new(service, move |request| {
        without_prefix(request, prefix.as_deref())
    });
    // Around the routes: clients join a base URL and a path in many ways, and `//v3/models/` means
    // `/v3/models`.
    Router::new().fallback_service(NormalizePath::trim_trailing_slash(service))
}

/// Builds the service of a listener that serves metrics alone.
pub(super) fn metrics(app: &Arc<App>, site: SitePolicy) -> Router {
    let (routes, needs) = (http::metrics_routes(), http::needs(false));
    stacked(app, routes, needs, site, Protocol::Rest(Targets::new()))
}

/// Removes the configured prefix from the path of a request that has it.
fn without_prefix(mut request: Request, prefix: Option<&str>) -> Request {
    let path_and_query = request.uri().path_and_query().map_or("", |it| it.as_str());
    let rest = prefix.and_then(|prefix| path_and_query.strip_prefix(prefix));
    let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
    let rest = rest.map(|rest| format!("/{}", rest.strip_prefix('/').unwrap_or(rest)));
    if let Some(rest) = rest.and_then(|rest| rest.parse().ok()) {
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = Some(rest);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// Builds the service of a listener for gRPC.
pub(super) fn grpc(app: &Arc<App>, audience: Side, site: SitePolicy, rest_port: u16) -> Router {
    let (routes, needs) = (grpc::routes(app, audience), grpc::needs());
    stacked(app, routes, needs, site, Protocol::Grpc { rest_port })
}

/// The protocol whose form failures take.
#[derive(Clone)]
enum Protocol {
    Rest(Targets),
    Grpc { rest_port: u16 },
}

/// Adds the layers around routes. They are one layer for the router, which would copy and box each
/// of several for every request.
fn stacked(
    app: &Arc<App>,
    routes: Router<Arc<App>>,
    needs: impl IntoIterator<Item = (Method, String, Permission)>,
    site: SitePolicy,
    protocol: Protocol,
) -> Router {
    let gate = app.keys.as_ref().map(|keys| {
        let counts = app.metrics.keys().clone();
        let gate = Arc::new(Gate::new(Arc::clone(keys), counts, needs));
        middleware::from_fn_with_state(gate, keys::layer)
    });
    let (cors, site) = (site.cors(), Arc::new(site));
    let layers = ServiceBuilder::new()
        // Outermost: every answer carries the request id.
        .layer(middleware::from_fn(request_id::layer))
        // Outside of everything that can fail, so that each request is logged; inside of the id
        // that the log line shows.
        .layer(middleware::from_fn_with_state(
            Arc::clone(app),
            access::layer,
        ))
        // Outside of the panic handler, whose errors also get the protocol's form.
        .layer(middleware::from_fn_with_state(protocol, format_failures))
        // Inside of the log, which sees a panic as the 500 it becomes.
        .layer(CatchPanicLayer::custom(panicked))
        // Replaces any answer to a request whose body was cut off by that error.
        .layer(middleware::from_fn(listen::late_bodies))
        // Around everything that a foreign page must not reach, preflights included.
        .layer(middleware::from_fn_with_state(site, origin_checks::layer))
        .option_layer(cors)
        // Around everything that is served; inside of the layer that answers preflights, which have
        // no key.
        .option_layer(gate)
        // Inside CORS, so that pages can read this error.
        .layer(middleware::from_fn_with_state(Arc::clone(app), draining))
        // Before the handlers, which read names from the path.
        .layer(middleware::from_fn(legible));
    routes.with_state(Arc::clone(app)).layer(layers)
}

/// Formats failures as the protocol does.
async fn format_failures(
    State(protocol): State<Protocol>,
    request: Request,
    next: Next,
) -> Response {
    match protocol {
        Protocol::Rest(targets) => dialect_errors::layer(&targets, request, next).await,
        Protocol::Grpc { rest_port } => grpc::layer(request, next, rest_port).await,
    }
}

/// Refuses new work while the server waits for running requests. Queries are answered until the
/// end.
async fn draining(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if *request.method() == Method::POST && *app.runner.stage.borrow() >= Stage::Draining {
        return Failure::stopping().into_response();
    }
    next.run(request).await
}

/// Refuses paths whose percent-encoded bytes are not UTF-8.
async fn legible(request: Request, next: Next) -> Response {
    let path = percent_decode_str(request.uri().path());
    if path.decode_utf8().is_err() {
        let why = "the percent-encoded path is not UTF-8";
        return Failure::new(Cause::BadRequest, why).into_response();
    }
    next.run(request).await
}

#[expect(clippy::needless_pass_by_value, reason = "the layer gives it away")]
fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let said = log::without_texts(log::payload(&*panic));
    tracing::error!("a request handler panicked: {said}");
    let why = "the server failed while it handled the request";
    Failure::new(Cause::Panic, why).into_response()
}
