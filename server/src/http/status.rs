//! `GET /v3/status`: the current activity of each engine and each graph.

use axum::{Json, extract::State};
use graphmill_llm::Health;
use serde::Serialize;
use serde_json::{Value, json};

use super::AppState;
use crate::{app::state::App, servable::Servables};

/// An engine, identified by its model and the first graph that uses it.
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

/// Describes the running engines of a kind of models.
macro_rules! engines {
    ($models:expr) => {
        $models.into_iter().map(|(graph, name, model)| {
            let running = model.engine();
            let engine = json!(Engine {
                model: name,
                graph,
                health: model.health(),
                status: running.status(),
                file_change: running.files().change(),
                effective: running.info(),
            });
            (model, engine)
        })
    };
}

fn engines(servables: &Servables) -> Vec<Value> {
    let engines = engines!(servables.models()).map(|(model, mut engine)| {
        engine["chat_refused"] = model.chat_refused().into();
        engine
    });
    engines.collect()
}

fn embedding_engines(servables: &Servables) -> Vec<Value> {
    let engines = engines!(servables.embedding_models());
    engines.map(|(_, engine)| engine).collect()
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
    let (counts, limits) = (app.sequences.counts(), &app.sequences.limits);
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
        if let Some(progress) = servable.progress() {
            graph["loading"] = progress.json();
        }
        let failure = servable.failure().map(|reason| reason.to_string());
        if let Some(reason) = failure.or(unready) {
            graph["reason"] = reason.into();
        }
        graph
    });
    graphs.collect()
}

pub(crate) async fn status(State(app): AppState) -> Json<Value> {
    let servables = app.servables();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": app.started.elapsed().as_secs(),
        "bodies": { "bytes": app.bodies.taken(), "limit": app.bodies.all },
        "engines": engines(&servables),
        "embedding_engines": embedding_engines(&servables),
        "batchers": batchers(&servables),
        "sequences": sequences(&app),
        "graphs": graphs(&servables),
    }))
}
