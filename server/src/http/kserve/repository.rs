//! The repository of models, as Triton's clients ask about it and change it.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::{Path, Request, State},
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Map;

use crate::{
    app::state::App,
    errors::Failure,
    http::{observe::read_optional, unknown_route},
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
    #[expect(clippy::zero_sized_map_values, reason = "a set reads no map")]
    parameters: BTreeMap<String, IgnoredAny>,
}

/// The state of each graph.
pub(super) async fn index(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let body = app.read_body(&parts, body).await?;
    let Index { ready } = read_optional(&body)?;
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
    let Change { parameters } = read_optional(&body)?;
    let Some(name) = path.strip_suffix("/load") else {
        return Err(unknown_route(parts.method, parts.uri).await);
    };
    let parameters = parameters.keys().map(String::as_str);
    let actor = parts.extensions.get::<Arc<Caller>>();
    let actor = actor.map(|caller| Arc::clone(caller.name()));
    kserve::load(&app.served, actor, name, parameters).await?;
    Ok(Json(Map::new()).into_response())
}
