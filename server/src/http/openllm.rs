//! OpenLLM's paths that do not belong to its dialect, which its clients request before they send a
//! prompt.

use axum::{Json, extract::State};
use graphmill_calculators::llm::LanguageModel;
use graphmill_dialects::bodies::OPENLLM;
use serde::Deserialize;
use serde_json::json;

use super::{
    AppState, JsonResult, kserve,
    operation::{Answer, Group, OF_GRAPHS, Operation},
    request::RequestBody,
};
use crate::run::RequestContext;

/// Timeout in milliseconds that is reported if there is no limit.
const NO_TIMEOUT: u64 = 36_000_000;

/// Prefixes of architectures, with the families whose parameters OpenLLM's clients accept.
#[rustfmt::skip]
const FAMILIES: &[(&str, &str)] = &[
    ("baichuan", "baichuan"), ("chatglm", "chatglm"), ("command-r", "commandr"), ("dbrx", "dbrx"), ("falcon", "falcon"), ("gemma", "gemma"),
    ("gptneox", "gpt_neox"), ("mpt", "mpt"), ("phi", "phi"), ("qwen", "qwen"), ("stablelm", "stablelm"), ("starcoder", "starcoder"),
];

/// Family of all other architectures, because clients refuse unknown names.
const USUAL_FAMILY: &str = "llama";

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("/v1/metadata", metadata).about(Group::Models, "Describes the only model that generates, for OpenLLM's clients")
            .answers(Answer::Json(&["model_id", "model_name", "configuration"])).refuses(OF_GRAPHS),
        Operation::get("/readyz", kserve::ready).about(Group::Server, "Same as `/v2/health/ready`, for OpenLLM's clients")
            .answers(Answer::Health).listed(false),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Nothing {}

/// Describes the graph that answers `/v1/generate`. Clients use their own default parameters for
/// its family.
async fn metadata(State(app): AppState, who: RequestContext, body: RequestBody) -> JsonResult {
    let Nothing {} = body.fields()?;
    let name = {
        let servables = app.servables();
        let preferred = app.options.default_model.as_deref();
        let graph = servables.default_for(OPENLLM, preferred, |graph| who.sees(graph, None))?;
        graph.graph().to_owned()
    };
    let ready = who.available(&name, None).await?;
    let models = ready.plan().resources::<LanguageModel>();
    let architecture = models.first().and_then(|model| {
        let engine = model.engine();
        let weights = engine.info().backend.weights.as_ref()?;
        Some(weights.architecture.clone())
    });
    let architecture = architecture.unwrap_or_default();
    let mut families = FAMILIES.iter();
    let family = families.find(|(begin, _)| architecture.starts_with(begin));
    let timeout = ready.servable.response_timeout();
    Ok(Json(json!({
        "model_id": name,
        "model_name": family.map_or(USUAL_FAMILY, |(_, family)| family),
        "timeout": timeout.map_or(NO_TIMEOUT, |time| time.as_millis() as u64),
        "trust_remote_code": false,
        "configuration": {},
        "serialisation": "legacy",
        "quantise": null,
    })))
}
