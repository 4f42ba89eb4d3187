//! The layers around a request, outermost last, each with what breaks if it moves.

use std::{any::Any, sync::Arc};

use axum::{
    Router, middleware,
    response::{IntoResponse as _, Response},
};
use tower_http::catch_panic::CatchPanicLayer;

use crate::{
    app::App,
    http,
    observe::{access, log, request_id},
    rescue::{Cause, Failure},
};

/// The whole service.
pub(crate) fn stack(app: Arc<App>) -> Router {
    let metrics = Arc::clone(&app.metrics);
    http::routes()
        .with_state(app)
        // Innermost, so that the layers outside see a panic as the 500 it becomes: logged, with its request's id.
        .layer(CatchPanicLayer::custom(panicked))
        // Outside of the panics, which are told in the dialect of the path, too.
        .layer(middleware::from_fn(http::anthropic::layer))
        // Outside of everything that can fail, so that each request has its line; inside of the id that the line shows.
        .layer(middleware::from_fn_with_state(metrics, access::layer))
        // Outermost: whatever the answer is, it carries the id.
        .layer(middleware::from_fn(request_id::layer))
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
