//! Loading and unloading of graphs through the APIs of other servers: `/models/load` and
//! `/models/unload` of llama-server; `/sleep`, `/wake_up` and `/is_sleeping` of vLLM.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::{
    AppState, JsonResult,
    operation::{Answer, Group, Operation, Parameter, ParameterKind, Side},
    request::{Query, RequestBody, wrong},
};
use crate::{
    errors::{Cause, Failure, Result},
    run::RequestContext,
    servable::{Servable, StateName},
};

/// Causes of failures of loading or unloading a graph.
pub(super) const OF_A_GRAPH: &[Cause] = &[
    Cause::BadRequest,
    Cause::UnknownModel,
    Cause::NotFound,
    Cause::GraphFailed,
    Cause::NoMemory,
    Cause::QueueFull,
    Cause::Unavailable,
];

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    const DONE: Answer = Answer::Json(&["success"]);
    const MODEL: &[Parameter] = &[Parameter::new("model", ParameterKind::Text, "Name of the graph")];
    const LEVEL: &[Parameter] = &[Parameter::new("level", ParameterKind::OneOf(&["1", "2"]), "Level of sleep; both levels have the same effect")];
    let operations = [
        Operation::post("/models/load", load).about(Group::Models, "Loads a graph, as llama-server does").takes(MODEL).answers(DONE),
        Operation::post("/models/unload", unload).about(Group::Models, "Unloads a graph when its requests have ended; the next request loads it again")
            .takes(MODEL).answers(DONE),
        Operation::post("/sleep", sleep).about(Group::Models, "Unloads all graphs when their requests have ended, as vLLM does").asks(LEVEL),
        Operation::post("/wake_up", wake_up).about(Group::Models, "Loads the graphs that `/sleep` unloaded"),
        Operation::get("/is_sleeping", is_sleeping).about(Group::Models, "Reports if `/sleep` unloaded graphs and none is loaded again")
            .answers(Answer::Json(&["is_sleeping"])),
    ];
    operations.map(|operation| operation.refuses(OF_A_GRAPH).on(Side::Management)).into()
}

/// Returns true for llama-server's paths among those of TorchServe.
pub(super) fn owns(path: &str) -> bool {
    matches!(path, "/models/load" | "/models/unload")
}

/// Returns the state of a graph in the terms of llama-server.
pub(super) fn status(servable: &Servable) -> Value {
    match servable.state_name() {
        StateName::Available => json!({ "value": "loaded" }),
        StateName::Listed | StateName::Unloaded => json!({ "value": "unloaded" }),
        StateName::Loading | StateName::Waiting => json!({ "value": "loading" }),
        StateName::Unloading => json!({ "value": "unloading" }),
        StateName::Failed => {
            let reason = servable.failure();
            json!({ "value": "failed", "failed": true, "reason": reason.as_deref() })
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct ModelBody {
    model: String,
}

/// Loads a graph. A load that takes long continues after the answer.
async fn load(who: RequestContext, body: RequestBody) -> JsonResult {
    let ModelBody { model } = body.fields()?;
    who.find(&model)?.servable.let_in();
    wake(&who, &model).await?;
    who.audit("load", &model, "done", None);
    Ok(Json(json!({ "success": true })))
}

async fn wake(who: &RequestContext, name: &str) -> Result<()> {
    match who.available(name, None).await {
        Err(failure) if failure.cause == Cause::Loading => Ok(()),
        loaded => loaded.map(drop),
    }
}

async fn unload(who: RequestContext, body: RequestBody) -> JsonResult {
    let ModelBody { model } = body.fields()?;
    let servable = who.find(&model)?.servable;
    put_to_sleep(&who, vec![servable]).await?;
    Ok(Json(json!({ "success": true })))
}

async fn put_to_sleep(who: &RequestContext, graphs: Vec<Arc<Servable>>) -> Result<()> {
    let names: Vec<String> = graphs.iter().map(|it| it.name().to_owned()).collect();
    let unloading = spawn_blocking(move || {
        // Each graph is tried, even if others cannot be unloaded.
        let ended: Vec<_> = graphs.iter().map(|it| it.put_to_sleep(false)).collect();
        ended.into_iter().collect::<Result<(), _>>()
    });
    unloading.await.map_err(|_| Failure::stopping())??;
    who.audit("unload", &names.join(", "), "done", None);
    Ok(())
}

async fn sleep(State(app): AppState, who: RequestContext, query: Query) -> JsonResult {
    query.check(&["level"])?;
    if !matches!(query.one("level")?, None | Some("1" | "2")) {
        return Err(wrong("level", "is neither `1` nor `2`"));
    }
    let servables = app.servables();
    let is_awake = |it: &&Arc<Servable>| it.available_since().is_some();
    let awake = (servables.all()).filter(|it| is_awake(it) && who.sees(it.graph(), None));
    put_to_sleep(&who, awake.cloned().collect()).await?;
    Ok(Json(json!({})))
}

async fn wake_up(State(app): AppState, who: RequestContext, query: Query) -> JsonResult {
    query.check(&[])?;
    let servables = app.servables();
    let mut ended = Ok(());
    for asleep in servables.iter().filter(|it| it.sleeps()) {
        // Each graph is tried, even if others cannot be loaded.
        ended = ended.and(wake(&who, asleep.name()).await);
    }
    ended.map(|()| Json(json!({})))
}

async fn is_sleeping(State(app): AppState) -> Json<Value> {
    let servables = app.servables();
    let is_awake = |it: &Servable| it.available_since().is_some();
    let sleeps = servables.iter().any(Servable::sleeps) && !servables.iter().any(is_awake);
    Json(json!({ "is_sleeping": sleeps }))
}
