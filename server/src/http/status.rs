//! `GET /v3/status`: what the server is doing now, for each engine and each graph.

use std::sync::Arc;
use std::time::Duration;

use axum::{Json, extract::State};
use serde_json::{Value, json};

use crate::http::state::App;

fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

pub(crate) async fn status(State(app): State<Arc<App>>) -> Json<Value> {
    let servables = app.servables();
    let engines: Vec<Value> = servables
        .models()
        .iter()
        .map(|(graph, name, model)| {
            let health = model.health();
            let engine = model.engine().status();
            json!({
                "model": name,
                "graph": graph,
                "state": health.state.as_str(),
                "restarts": health.restarts,
                "failure": health.failure.as_deref(),
                "chat_refused": model.chat_refused(),
                "sequences_running": engine.sequences_running,
                "sequences_waiting": engine.sequences_waiting,
                "requests_preparing": engine.requests_preparing,
                "prompt_tokens_waiting": engine.prompt_tokens_waiting,
                "refused": engine.refused,
                "kv_cells_used": engine.kv_cells_used,
                "kv_cells_total": engine.kv_cells_total,
                "prefix_cache": {
                    "queries": engine.prefix_queries,
                    "hits": engine.prefix_hits,
                    "tokens": engine.prefix_tokens,
                    "bytes": engine.prefix_bytes,
                    "evicted": engine.prefix_evicted,
                    "checkpoints": {
                        "count": engine.checkpoints,
                        "bytes": engine.checkpoint_bytes,
                        "hits": engine.checkpoint_hits,
                        "dropped": engine.checkpoints_dropped,
                    },
                },
                "image_cache": {
                    "queries": engine.images.queries,
                    "hits": engine.images.hits,
                    "images": engine.images.kept,
                    "bytes": engine.images.kept_bytes,
                    "encoded": engine.images.encoded,
                },
                "steps": engine.steps,
                "step": {
                    "target_ms": milliseconds(engine.step_target),
                    "expected_ms": milliseconds(engine.step_expected),
                    "median_ms": milliseconds(engine.step_median),
                    "prompt_tokens": engine.prompt_chunk,
                },
                "prompt_tokens": engine.prompt_tokens,
                "generated_tokens": engine.generated_tokens,
                "drafted_tokens": engine.drafted_tokens,
                "accepted_tokens": engine.accepted_tokens,
                "preemptions": engine.preemptions,
                "moves": engine.moves,
                "failed_steps": engine.failed_steps,
                "stalled_seconds": engine.stalled_for().as_secs(),
                "stopped": engine.stopped,
                "file_change": model.engine().files().change(),
                "effective": model.engine().info(),
            })
        })
        .collect();
    let models = servables.embedding_models();
    let embedding_engines = models.iter().map(|(graph, name, model)| {
        let health = model.health();
        let running = model.engine();
        let (engine, measured) = (running.status(), running.measurements());
        json!({
            "model": name,
            "graph": graph,
            "state": health.state.as_str(),
            "restarts": health.restarts,
            "failure": health.failure.as_deref(),
            "requests": engine.requests,
            "refused": engine.refused,
            "steps": measured.step_tokens.count,
            "texts": measured.step_texts.sum,
            "tokens": measured.step_tokens.sum,
            "failed_steps": measured.failed_steps,
            "stalled_seconds": engine.stalled_for().as_secs(),
            "stopped": engine.stopped,
            "file_change": model.engine().files().change(),
            "effective": model.engine().info(),
        })
    });
    let embedding_engines: Vec<Value> = embedding_engines.collect();
    let batchers: Vec<Value> = servables
        .batchers()
        .iter()
        .map(|(graph, model, batcher)| {
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
        })
        .collect();
    let (counts, limits) = (app.sequences.counts(), app.sequences.limits());
    let sequences = json!({
        "open": counts.open.values().sum::<usize>(),
        "in_use": counts.in_use,
        "refused": counts.refused,
        "limit": limits.all,
        "limit_of_a_key": limits.of_a_key,
        "idle_seconds": limits.idle.as_secs_f64(),
        "graphs": counts.open,
    });
    let graphs: Vec<Value> = servables
        .iter()
        .map(|servable| {
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
        })
        .collect();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": app.started.elapsed().as_secs(),
        "bodies": { "bytes": app.bodies.taken(), "limit": app.bodies.limit() },
        "engines": engines,
        "embedding_engines": embedding_engines,
        "batchers": batchers,
        "sequences": sequences,
        "graphs": graphs,
    }))
}
