//! Paths of Hugging Face's servers that do not belong to a dialect: the description of a model, and
//! refusals of TEI's paths that are not supported.

use axum::{Json, extract::State};
use graphmill_calculators::{embed::EmbeddingModel, llm::LanguageModel};
use graphmill_dialects::{
    bodies::{TEI_EMBED, TEI_RERANK, TGI},
    limits::{MAX_DOCUMENTS, MAX_STOPS, MAX_TEXTS},
};
use graphmill_llm::embed::{Head, Pooling};
use serde_json::{Map, Value, json};

use super::{
    AppState, JsonResult,
    operation::{Answer, Group, OF_GRAPHS, Operation, Parameter, ParameterKind, refused},
    request::Query,
};
use crate::{
    errors::{Cause, Failure},
    run::RequestContext,
    servable::request_stream,
};

/// Paths of TEI for unsupported kinds of models, with the reason.
const REFUSED: &[(&str, &str)] = &[
    (
        "/embed_all",
        "models return one vector per text: use `/embed`",
    ),
    (
        "/embed_sparse",
        "sparse vectors are not supported; `/embed` returns dense vectors",
    ),
];

const INFO: &str = "/info";

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    let info = Operation::get(INFO, info).about(Group::Models, "Describes a model as TGI and TEI do")
        .asks(const { &[Parameter::new("model", ParameterKind::OptionalText, "Name of the graph. Default: the only graph that generates, or else that embeds or ranks")] })
        .answers(Answer::Json(&["model_id", "version"])).refuses(OF_GRAPHS);
    let refused = REFUSED.iter().map(|(path, why)| {
        let refused = Operation::post(path, refused(why)).about(Group::Vectors, "Refused: such models are not supported");
        refused.refuses(&[Cause::Unsupported]).listed(false)
    });
    [info].into_iter().chain(refused).collect()
}

/// Returns true for paths whose failures have the form of Hugging Face's servers.
pub(super) fn owns(path: &str) -> bool {
    path == INFO || REFUSED.iter().any(|(refused, _)| *refused == path)
}

/// Formats a failure as these clients expect.
pub(super) fn error(failure: &Failure) -> Value {
    graphmill_calculators::http::hugging_face_error(&failure.view(None))
}

async fn info(State(app): AppState, who: RequestContext, query: Query) -> JsonResult {
    query.check(&["model"])?;
    let name = match query.one("model")? {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => {
            let servables = app.servables();
            let sees = |graph: &str| who.sees(graph, None);
            let mut endpoints = [TGI, TEI_EMBED, TEI_RERANK].into_iter();
            let endpoint = endpoints.find(|endpoint| servables.answer_at(endpoint, sees));
            let preferred = app.options.default_model.as_deref();
            let graph = servables.default_for(endpoint.unwrap_or(TGI), preferred, sees)?;
            graph.graph().to_owned()
        }
    };
    let newest = who.find(&name)?.servable;
    let ready = who.available(newest.name(), None).await?;
    let plan = ready.plan();
    if request_stream(plan).is_none() {
        return Err(Failure::for_tensors(ready.servable.name()));
    }
    let mut info = if let Some(model) = plan.resources::<LanguageModel>().first() {
        generates(model)
    } else if let Some(model) = plan.resources::<EmbeddingModel>().first() {
        embeds(model)
    } else {
        let message = format!("the graph `{name}` has no text model");
        return Err(Failure::new(Cause::NotFound, message).with_field("model"));
    };
    info["model_id"] = name.into();
    info["version"] = env!("CARGO_PKG_VERSION").into();
    Ok(Json(info))
}

/// Describes a model as TGI does.
fn generates(model: &LanguageModel) -> Value {
    let engine = model.engine();
    let (spec, tokens) = (engine.spec(), engine.context_length());
    json!({
        "model_sha": null,
        "model_pipeline_tag": "text-generation",
        "max_concurrent_requests": spec.max_num_seqs + spec.max_waiting,
        "max_stop_sequences": MAX_STOPS,
        "max_input_tokens": model.max_input_tokens(),
        "max_total_tokens": tokens,
        "max_client_batch_size": 1,
        "router": "graphmill",
    })
}

/// Describes a model by its classes.
fn head(head: &Head) -> Value {
    let (mut names, mut ids) = (Map::new(), Map::new());
    for (id, label) in head.labels.iter().enumerate() {
        names.insert(id.to_string(), label.as_str().into());
        ids.insert(label.clone(), id.into());
    }
    let ranks = head.is_probability || head.labels.len() == 1;
    let kind = if ranks { "reranker" } else { "classifier" };
    json!({ (kind): { "id2label": names, "label2id": ids } })
}

/// Describes a model as TEI does.
fn embeds(model: &EmbeddingModel) -> Value {
    let engine = model.engine();
    let info = engine.info();
    let embeds = |pooling| (json!({ "embedding": { "pooling": pooling } }), MAX_TEXTS);
    let (kind, max_texts) = match info.pooling {
        Pooling::Mean => embeds("mean"),
        Pooling::Cls => embeds("cls"),
        Pooling::Last => embeds("last_token"),
        Pooling::Rank => (head(engine.head()), MAX_DOCUMENTS),
    };
    json!({
        "model_sha": null,
        "model_type": kind,
        "max_concurrent_requests": info.max_waiting,
        "max_input_length": info.context_length,
        "max_batch_tokens": info.max_num_batched_tokens,
        "max_client_batch_size": max_texts,
    })
}
