//! The layers around a request, outermost last, each with what breaks if it moves.

use std::{any::Any, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    http::Method,
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use tower_http::catch_panic::CatchPanicLayer;

use crate::{
    grpc,
    http::{self, Side, access, state::App},
    keys::{self, Gate, Need},
    listen,
    observe::{log, request_id},
    rescue::{Cause, Failure},
    servable::Stage,
    site::{self, Site},
};

/// The whole service of a listener for REST.
pub(super) fn rest(app: &Arc<App>, audience: Side, site: Site) -> Router {
    let routes = guarded(app, http::routes(audience), http::needs(), site)
        // Outside of the panics, which are told in the dialect of the path, too.
        .layer(middleware::from_fn(http::dialects::layer));
    told(app, routes)
}

/// The whole service of a listener for gRPC.
pub(super) fn grpc(app: &Arc<App>, site: Site) -> Router {
    let routes = guarded(app, grpc::routes(app), grpc::needs(), site)
        // Outside of the panics, which become statuses, too.
        .layer(middleware::from_fn(grpc::layer));
    told(app, routes)
}

/// Routes, and whatever refuses a request for them.
fn guarded(
    app: &Arc<App>,
    routes: Router<Arc<App>>,
    needs: impl IntoIterator<Item = (Method, String, Need)>,
    site: Site,
) -> Router {
    let mut routes = routes
        .with_state(Arc::clone(app))
        // Inside of what lets pages read answers: they may read this one.
        .layer(middleware::from_fn_with_state(Arc::clone(app), draining));
    if let Some(keys) = &app.keys {
        let counts = app.metrics.keys().clone();
        let gate = Gate::new(Arc::clone(keys), counts, needs);
        // Around all that is served; inside of what answers the preflights of pages, which have no
        // key.
        routes = routes.layer(middleware::from_fn_with_state(Arc::new(gate), keys::layer));
    }
    if let Some(cors) = site.cors() {
        routes = routes.layer(cors);
    }
    routes
        // Around all that a foreign page must not reach, preflights included.
        .layer(middleware::from_fn_with_state(Arc::new(site), site::layer))
        // Whatever becomes of a request whose body was cut off, that is why.
        .layer(middleware::from_fn(listen::late_bodies))
        // Innermost, so that the layers outside see a panic as the 500 it becomes: logged, with its
        // request's id.
        .layer(CatchPanicLayer::custom(panicked))
}

/// What tells of a request, whatever became of it.
fn told(app: &Arc<App>, routes: Router) -> Router {
    routes
        // Outside of everything that can fail, so that each request has its line; inside of the id
        // that the line shows.
        .layer(middleware::from_fn_with_state(
            Arc::clone(app),
            access::layer,
        ))
        // Outermost: whatever the answer is, it carries the id.
        .layer(middleware::from_fn(request_id::layer))
}

/// Refuses work that comes when the running one is only waited for; what only asks is answered
/// until the end.
async fn draining(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if *request.method() == Method::POST && *app.stage.borrow() >= Stage::Draining {
        return Failure::new(Cause::Draining, "the server is stopping").into_response();
    }
    next.run(request).await
}

#[expect(clippy::needless_pass_by_value, reason = "the layer gives it away")]
fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let said = log::without_texts(log::payload(&*panic));
    tracing::error!("a request handler panicked: {said}");
    Failure::new(
        Cause::Panic,
        "the server failed while it handled the request",
    )
    .into_response()
}
