//! The repository of models, as Triton's clients ask about it and change it.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Request, State},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use graphmill_calculators::payload::without_mark;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    app::state::App,
    errors::{Cause, Failure},
    http::unknown_route,
    keys::Caller,
    kserve,
};

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Index {
    ready: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Change {
    parameters: Map<String, Value>,
}

/// A body that may be empty.
fn read<T: Default + DeserializeOwned>(body: &Bytes) -> Result<T, Failure> {
    if body.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(without_mark(body)).map_err(|error| {
        Failure::new(
            Cause::BadRequest,
            format!("the body cannot be read: {error}"),
        )
    })
}

/// The state of each graph.
pub(super) async fn index(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let body = app.read_body(&parts, body).await?;
    let Index { ready } = read(&body)?;
    Ok(Json(kserve::index(&app.servables(), ready)).into_response())
}

/// `{name}/load` and `{name}/unload`.
pub(super) async fn change(
    State(app): State<Arc<App>>,
    Path(path): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let body = app.read_body(&parts, body).await?;
    if path.ends_with("/unload") {
        return Err(kserve::unload());
    }
    let Change { parameters } = read(&body)?;
    let Some(name) = path.strip_suffix("/load") else {
        return Err(unknown_route(parts.method, parts.uri).await);
    };
    let parameters = parameters.keys().map(String::as_str);
    let actor = parts.extensions.get::<Arc<Caller>>();
    let actor = actor.map(|caller| Arc::clone(caller.name()));
    kserve::load(&app.served, actor, name, parameters).await?;
    Ok(Json(serde_json::json!({})).into_response())
}
