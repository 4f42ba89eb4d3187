//! Graphs as models of Ollama's API: the list, the ones in memory, and the details of each.

use std::time::{Duration, SystemTime};

use axum::{Json, extract::State};
use chrono::{DateTime, SecondsFormat, Utc};
use graphmill_calculators::{
    embed::EmbeddingModel,
    llm::LanguageModel,
    text::nodes::{ReasoningParser, ToolParser},
};
use graphmill_dialects::bodies::{CHAT, COMPLETIONS, EMBEDDINGS};
use graphmill_engine::{Calculator as _, FileStamps, Plan};
use graphmill_llm::info::{BackendInfo, BufferInfo, WeightsInfo};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::ModelQuery;
use crate::{
    http::{
        AppState, JsonResult,
        openai::models::{Model, visible},
        request::RequestBody,
    },
    run::RequestContext,
    servable::{INFER, LATEST, Servable},
};

/// Expiry that Ollama reports for a model that is never unloaded.
const FOR_GOOD: Duration = Duration::from_nanos(i64::MAX as u64);

/// Lists the graphs that answer now, or are loaded at their first request.
pub(super) async fn list(State(app): AppState, who: RequestContext) -> Json<Value> {
    let models = visible(&app, &who);
    let models = models.iter().filter_map(entry);
    Json(json!({ "models": models.collect::<Vec<_>>() }))
}

/// Lists the graphs in memory.
pub(super) async fn running(State(app): AppState, who: RequestContext) -> Json<Value> {
    let models = visible(&app, &who);
    let graphs = models.iter().filter(|model| model.adapter.is_none());
    let graphs = graphs.filter(|model| model.servable.plan().is_ok());
    let running = graphs.filter_map(|model| {
        let mut entry = entry(model)?;
        let backends = backends(&model.servable);
        let buffers = || backends.iter().flat_map(|backend| &backend.buffers);
        // Memory of the host has such a name, also if it is pinned for a device.
        let is_of_device =
            |it: &&BufferInfo| !it.memory.starts_with("CPU") && !it.memory.ends_with("_Host");
        let of_devices = buffers().filter(is_of_device).map(|it| it.bytes);
        entry["size"] = buffers().map(|it| it.bytes).sum::<u64>().into();
        entry["size_vram"] = of_devices.sum::<u64>().into();
        let left = model.servable.time_to_unload().unwrap_or(FOR_GOOD);
        entry["expires_at"] = written(SystemTime::now() + left);
        entry["context_length"] = model.servable.context_length().into();
        Some(entry)
    });
    Json(json!({ "models": running.collect::<Vec<_>>() }))
}

/// Describes a graph in detail, after loading it.
pub(super) async fn show(who: RequestContext, body: RequestBody) -> JsonResult {
    let asked: ModelQuery = body.fields()?;
    let ready = who.available(asked.model()?, who.deadline(None)).await?;
    let (servable, plan) = (&ready.servable, ready.plan());
    let context = servable.context_length();
    let mut shown = json!({
        "details": details(&backends(servable)),
        "model_info": model_info(servable, plan),
        "capabilities": capabilities(servable, plan),
    });
    if let Some(tokens) = context {
        shown["parameters"] = format!("num_ctx {tokens}").into();
    }
    let models = plan.resources::<LanguageModel>();
    let template = models.first().and_then(|it| it.chat_template(false).ok());
    shown["template"] = template.map_or("", |template| template.source()).into();
    if let Some(time) = servable.files().last_change() {
        shown["modified_at"] = written(time);
    }
    Ok(Json(shown))
}

/// Returns a graph or an adapter for a list; `None` for a graph of tensors, or without a text
/// model.
fn entry(model: &Model) -> Option<Value> {
    let backends = backends(&model.servable);
    let has_none = backends.is_empty() && model.servable.plan().is_ok();
    if has_none || model.servable.endpoints() == [INFER] {
        return None;
    }
    let mut name = model.id();
    if !name.contains(':') {
        name = format!("{name}:{LATEST}");
    }
    let files = model.servable.files();
    let mut entry = json!({
        "name": name,
        "model": name,
        "size": files.bytes_beyond(&FileStamps::default()),
        "digest": identity(&name, &files),
        "details": details(&backends),
    });
    if let Some(time) = files.last_change() {
        entry["modified_at"] = written(time);
    }
    Some(entry)
}

/// Returns the backends of a graph's models, once they are loaded.
fn backends(servable: &Servable) -> Vec<BackendInfo> {
    let Ok(plan) = servable.plan() else {
        return Vec::new();
    };
    let generating = plan.resources::<LanguageModel>().into_iter();
    let generating = generating.map(|it| it.engine().info().backend.clone());
    let embedding = plan.resources::<EmbeddingModel>().into_iter();
    let embedding = embedding.map(|it| it.engine().info().backend.clone());
    generating.chain(embedding).collect()
}

/// Describes the model of a graph; with empty strings if nothing is known.
fn details(backends: &[BackendInfo]) -> Value {
    let weights = backends.iter().find_map(|it| it.weights.as_ref());
    let text = |of: fn(&WeightsInfo) -> String| weights.map(of).unwrap_or_default();
    let families: Vec<&str> = weights.iter().map(|it| it.architecture.as_str()).collect();
    json!({
        "parent_model": "",
        "format": text(|_| "gguf".to_owned()),
        "family": text(|weights| weights.architecture.clone()),
        "families": families,
        "parameter_size": text(|weights| rounded(weights.parameters)),
        "quantization_level": text(|weights| weights.quantization.clone()),
    })
}

/// Formats a number of weights as Ollama does: `7.6B`.
fn rounded(count: u64) -> String {
    let number = count as f64;
    match count {
        1_000_000_000.. => format!("{:.1}B", number / 1e9),
        1_000_000.. => format!("{:.2}M", number / 1e6),
        1_000.. => format!("{:.2}K", number / 1e3),
        _ => count.to_string(),
    }
}

/// Returns figures of the model under the names in its file. The context length is the one that is
/// served.
fn model_info(servable: &Servable, plan: &Plan) -> Value {
    let backends = backends(servable);
    let Some(first) = backends.first() else {
        return json!({});
    };
    let weights = first.weights.as_ref();
    let architecture = weights.map_or(first.backend, |weights| &weights.architecture);
    let embedding = plan.resources::<EmbeddingModel>();
    let width = embedding.first().map(|it| it.engine().info().dimensions);
    let mut info = json!({
        "general.architecture": architecture,
        "general.parameter_count": weights.map(|weights| weights.parameters),
        (format!("{architecture}.context_length")): servable.context_length(),
        (format!("{architecture}.embedding_length")): width,
    });
    if let Some(known) = info.as_object_mut() {
        known.retain(|_, value| !value.is_null());
    }
    info
}

/// Returns the capabilities of a graph for requests in Ollama's dialect.
fn capabilities(servable: &Servable, plan: &Plan) -> Vec<&'static str> {
    let endpoints = servable.endpoints();
    let answers = |endpoint| endpoints.contains(&endpoint);
    let models = plan.resources::<LanguageModel>();
    let all = |can: fn(&LanguageModel) -> bool| {
        !models.is_empty() && models.iter().all(|model| can(model))
    };
    let nodes = &plan.explain().nodes;
    let parses = |name: &str| answers(CHAT) && nodes.iter().any(|it| *it.calculator == *name);
    let calls_tools = parses(ToolParser::NAME) && all(LanguageModel::calls_tools);
    let reasons = parses(ReasoningParser::NAME) && all(LanguageModel::reasons);
    let inserts = answers(COMPLETIONS) && all(|model| model.vocab().gap_marks().is_some());
    let known = [
        ("completion", answers(COMPLETIONS)),
        ("vision", servable.reads().contains(&"image")),
        ("tools", calls_tools),
        ("thinking", reasons),
        ("insert", inserts),
        ("embedding", answers(EMBEDDINGS)),
    ];
    let known = known.into_iter().filter(|(_, can)| *can);
    known.map(|(name, _)| name).collect()
}

/// Returns an identifier of the files that a graph was last made from. It changes when a file
/// changes. The contents, which can be large, are not read.
fn identity(name: &str, files: &FileStamps) -> String {
    let digest = digest(&SHA256, format!("{name} {files:?}").as_bytes());
    let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

fn written(time: SystemTime) -> Value {
    let time = DateTime::<Utc>::from(time);
    time.to_rfc3339_opts(SecondsFormat::Nanos, true).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_weights_are_rounded() {
        let counts = [0, 999, 1_500, 494_032_768, 7_615_616_512];
        let written = counts.map(rounded);
        assert_eq!(written, ["0", "999", "1.50K", "494.03M", "7.6B"]);
    }
}
