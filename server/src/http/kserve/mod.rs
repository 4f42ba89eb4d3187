//! The KServe v2 dialect.

mod health;

use std::sync::Arc;

use axum::{Router, routing::get};

use crate::app::App;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v2/health/live", get(health::live))
        .route("/v2/health/ready", get(health::ready))
}
