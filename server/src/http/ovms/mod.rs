//! What tools for OpenVINO Model Server ask: the state of what `config.json` lists.

mod config;

use std::sync::Arc;

use axum::{Router, routing::get};

use crate::app::App;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/v1/config", get(config::config))
}
