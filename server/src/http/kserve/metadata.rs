//! What the server and its graphs are, and what is counted of them.

use std::sync::Arc;

use axum::{Json, extract::State};
use graphmill_calculators::tensor::Datatype;
use serde_json::{Value, json};

use crate::{
    app::state::App,
    errors::Failure,
    http::asker::Asker,
    kserve::{
        EXTENSIONS, GraphCounts, Label, Metadata, NAME, PLATFORM, Times, log_settings,
        refuse_settings, trace_settings,
    },
    servable::Servable,
    tensors::Port,
};

/// Name, version and extensions of the server.
pub(super) async fn server() -> Json<Value> {
    let version = env!("CARGO_PKG_VERSION");
    Json(json!({ "name": NAME, "version": version, "extensions": EXTENSIONS }))
}

/// The tensors of a graph.
pub(super) fn of_model(servable: &Servable) -> Result<Json<Value>, Failure> {
    let metadata = Metadata::of(servable)?;
    let ports = |ports: &[Port]| -> Value {
        let port = |port: &Port| json!({ "name": port.name, "datatype": port.datatype_name(), "shape": port.shape });
        ports.iter().map(port).collect()
    };
    Ok(Json(json!({
        "name": metadata.label.name,
        "versions": [metadata.label.version],
        "platform": PLATFORM,
        "inputs": ports(&metadata.inputs),
        "outputs": ports(&metadata.outputs),
    })))
}

/// The same in the form of Triton's model configuration.
pub(super) fn config(servable: &Servable) -> Result<Json<Value>, Failure> {
    let metadata = Metadata::of(servable)?;
    let ports = |ports: &[Port]| -> Value {
        let port = |port: &Port| json!({ "name": port.name, "data_type": triton_type(port.datatype), "dims": port.shape });
        ports.iter().map(port).collect()
    };
    Ok(Json(json!({
        "name": metadata.label.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "max_batch_size": 0,
        "input": ports(&metadata.inputs),
        "output": ports(&metadata.outputs),
        "model_transaction_policy": { "decoupled": true },
    })))
}

/// A datatype as Triton's configuration names it.
fn triton_type(datatype: Option<Datatype>) -> String {
    match datatype {
        None => "TYPE_INVALID".to_owned(),
        Some(Datatype::Bytes) => "TYPE_STRING".to_owned(),
        Some(datatype) => format!("TYPE_{datatype}"),
    }
}

/// Counts and times of the requests for one graph.
pub(super) fn statistics(app: &App, servable: &Servable) -> Json<Value> {
    Json(json!({ "model_stats": [counted(app, servable)] }))
}

/// Counts and times of the requests, of each graph that the key is for.
pub(super) async fn all_statistics(State(app): State<Arc<App>>, asker: Asker) -> Json<Value> {
    let servables = app.servables();
    let all = servables.iter();
    let visible = all.filter(|servable| asker.sees(servable.graph(), None));
    let all: Vec<Value> = visible.map(|servable| counted(&app, servable)).collect();
    Json(json!({ "model_stats": all }))
}

fn counted(app: &App, servable: &Servable) -> Value {
    let counts: GraphCounts = app.statistics.of(servable.name());
    let Label { name, version } = Label::of(servable);
    let none = Times::default();
    json!({
        "name": name,
        "version": version,
        "last_inference": counts.last,
        "inference_count": counts.success.count,
        "execution_count": counts.success.count,
        "inference_stats": {
            "success": counts.success,
            "fail": counts.fail,
            "queue": counts.queue,
            "compute_input": counts.around(),
            "compute_infer": counts.infer,
            "compute_output": counts.around(),
            "cache_hit": none,
            "cache_miss": none,
        },
        "batch_stats": [],
    })
}

/// How much is logged.
pub(super) async fn logging() -> Json<Value> {
    let settings = log_settings().map(|(name, value)| (name.to_owned(), json!(value)));
    Json(settings.into_iter().collect())
}

/// Whether requests are traced.
pub(super) async fn tracing(State(app): State<Arc<App>>) -> Json<Value> {
    let settings = trace_settings(app.options.traces.as_ref()).into_iter();
    // What can be a list is one, of what has one value the value.
    let settings = settings.map(|(name, values)| {
        let value = match (name, values.as_slice()) {
            ("trace_level", _) => json!(values),
            (_, [value]) => json!(value),
            _ => json!(values),
        };
        (name.to_owned(), value)
    });
    Json(settings.collect())
}

pub(super) async fn set_tracing() -> Failure {
    refuse_settings("trace", "--otlp_endpoint")
}
