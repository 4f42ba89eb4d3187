//! `/models`: what is served, as TorchServe's management API lists it, and why that is not changed
//! there.

use std::{
    future::{Ready, ready},
    sync::Arc,
};

use axum::{
    Json,
    extract::{Path, State},
    http::Uri,
};
use serde_json::{Value, json};

use super::named;
use crate::{
    app::state::App,
    errors::{Cause, Failure},
    http::asker::Asker,
    kserve::{self, Label, wrong},
    servable::Servable,
};

/// How many graphs a page has at most, where the request does not say it.
const PAGE: usize = 100;

/// Which graphs are listed: the first, and how many.
fn page(uri: &Uri) -> Result<(usize, usize), Failure> {
    let (mut first, mut limit) = (0, PAGE);
    for pair in uri.query().unwrap_or_default().split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let number = || {
            let number = value.parse().ok();
            number.ok_or_else(|| wrong(name.to_owned(), "it is a whole number"))
        };
        match name {
            "limit" => limit = number()?,
            "next_page_token" => first = number()?,
            _ => {}
        }
    }
    if limit == 0 {
        return Err(wrong("limit".to_owned(), "it is at least 1"));
    }
    Ok((first, limit))
}

/// The names of the graphs.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    asker: Asker,
    uri: Uri,
) -> Result<Json<Value>, Failure> {
    let (first, limit) = page(&uri)?;
    let servables = app.servables();
    let names = servables.iter().map(Servable::graph);
    let mut names: Vec<&str> = names.filter(|name| asker.sees(name, None)).collect();
    names.dedup();
    let shown = names.iter().skip(first).take(limit);
    let models: Vec<Value> = shown
        .map(|name| json!({ "modelName": name, "modelUrl": name }))
        .collect();
    let mut answer = json!({ "models": models });
    let next = first.saturating_add(limit);
    if next < names.len() {
        answer["nextPageToken"] = json!(next.to_string());
    }
    Ok(Json(answer))
}

/// A graph: the version that is named, or that requests would go to.
pub(super) async fn describe(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path(path): Path<String>,
) -> Result<Json<Value>, Failure> {
    let find = |name: &str| app.runner.find(name, asker.caller());
    let (name, version) = named(&path, |name| find(name).is_ok());
    let (_, graph) = kserve::find_version(find, name, version)?;
    let Label { name, version } = Label::of(&graph);
    Ok(Json(json!([{
        "modelName": name,
        "modelVersion": version,
        "modelUrl": name,
        "runtime": kserve::PLATFORM,
        "minWorkers": 1,
        "maxWorkers": 1,
        "batchSize": 1,
        "maxBatchDelay": 0,
        "loadedAtStartup": !graph.loads_on_demand(),
        "workers": [{ "id": "0", "status": kserve::state(&graph) }],
    }])))
}

/// A handler that refuses a change.
pub(super) fn refused(why: &'static str) -> impl Fn() -> Ready<Failure> + Clone {
    move || ready(Failure::new(Cause::Unsupported, why))
}
