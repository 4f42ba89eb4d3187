//! `GET /v3/status`: what the server is doing now, for each engine and each graph.

use std::sync::Arc;

use axum::{Json, extract::State};
use graphmill_llm::{Health, ModelFiles};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{app::state::App, servable::Servables};

/// An engine, by its model and the first graph that uses it.
#[derive(Serialize)]
struct Engine<'a, S, I> {
    model: String,
    graph: String,
    #[serde(flatten)]
    health: Health,
    #[serde(flatten)]
    status: S,
    file_change: Option<String>,
    effective: &'a I,
}

fn engine<S: Serialize, I: Serialize>(
    (graph, model): (String, String),
    health: Health,
    status: S,
    files: &ModelFiles,
    effective: &I,
) -> Value {
    json!(Engine {
        model,
        graph,
        health,
        status,
        file_change: files.change(),
        effective,
    })
}

fn engines(servables: &Servables) -> Vec<Value> {
    let models = servables.models().into_iter();
    let engines = models.map(|(graph, name, model)| {
        let running = model.engine();
        let (status, files) = (running.status(), running.files());
        let mut engine = engine((graph, name), model.health(), status, files, running.info());
        engine["chat_refused"] = model.chat_refused().into();
        engine
    });
    engines.collect()
}

fn embedding_engines(servables: &Servables) -> Vec<Value> {
    let models = servables.embedding_models().into_iter();
    let engines = models.map(|(graph, name, model)| {
        let running = model.engine();
        let (status, files) = (running.status(), running.files());
        engine((graph, name), model.health(), status, files, running.info())
    });
    engines.collect()
}

fn batchers(servables: &Servables) -> Vec<Value> {
    let batchers = servables.batchers().into_iter();
    let batchers = batchers.map(|(graph, model, batcher)| {
        let measured = batcher.measurements();
        json!({
            "model": model,
            "graph": graph,
            "requests_waiting": batcher.waiting(),
            "refused": measured.refused,
            "batches": measured.batch_rows.count,
            "rows": measured.batch_rows.sum,
            "failed_batches": measured.failed_batches,
            "effective": batcher.info(),
        })
    });
    batchers.collect()
}

fn sequences(app: &App) -> Value {
    let (counts, limits) = (app.sequences.counts(), app.sequences.limits());
    json!({
        "open": counts.open.values().sum::<usize>(),
        "in_use": counts.in_use,
        "refused": counts.refused,
        "limit": limits.all,
        "limit_of_a_key": limits.of_a_key,
        "idle_seconds": limits.idle.as_secs_f64(),
        "graphs": counts.open,
    })
}

fn graphs(servables: &Servables) -> Vec<Value> {
    let graphs = servables.iter();
    let graphs = graphs.map(|servable| {
        let mut graph = json!({
            "name": servable.name(),
            "state": servable.state_name().as_str(),
            "open_sessions": servable.open_sessions(),
            "jobs_waiting": servable.jobs_waiting(),
            "refused": servable.sessions_refused(),
        });
        if let Some(version) = servable.version() {
            graph["graph"] = servable.graph().into();
            graph["version"] = version.into();
        }
        if servable.requests_waiting() > 0 {
            graph["requests_waiting"] = servable.requests_waiting().into();
        }
        let unready = servable.unready();
        graph["ready"] = unready.is_none().into();
        let failure = servable.failure().map(|reason| reason.to_string());
        if let Some(progress) = servable.progress() {
            graph["loading"] = progress.json();
        }
        if let Some(reason) = failure.or(unready) {
            graph["reason"] = reason.into();
        }
        graph
    });
    graphs.collect()
}

pub(crate) async fn status(State(app): State<Arc<App>>) -> Json<Value> {
    let servables = app.servables();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": app.started.elapsed().as_secs(),
        "bodies": { "bytes": app.bodies.taken(), "limit": app.bodies.limit() },
        "engines": engines(&servables),
        "embedding_engines": embedding_engines(&servables),
        "batchers": batchers(&servables),
        "sequences": sequences(&app),
        "graphs": graphs(&servables),
    }))
}
