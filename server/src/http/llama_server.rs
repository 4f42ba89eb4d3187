//! llama-server's paths that do not belong to its dialect: the description of a model, the state of
//! its slots, and its adapters. Changes of the server are refused: the configuration decides what
//! is served.

use axum::Json;
use graphmill_llm::Standing;
use serde_json::{Value, json};

use super::{
    JsonResult,
    openai::with_language_model,
    operation::{Answer, Group, OF_GRAPHS, Operation, Parameter, ParameterKind, Side, refused},
    request::Query,
};
use crate::{
    errors::{Cause, Failure},
    run::RequestContext,
};

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    use Group::{Models, Server};
    const MODEL: Parameter = Parameter::new("model", ParameterKind::OptionalText, "Name of the graph. Default: the only graph with a language model");
    const AUTOLOAD: Parameter = Parameter::new("autoload", ParameterKind::Boolean, "`false` refuses a graph that is not in memory, instead of loading it");
    const FAILS: Parameter = Parameter::new("fail_on_no_slot", ParameterKind::Boolean, "Answers 503 if no slot is free");
    let change = |path, why| {
        let change = Operation::post(path, refused(why)).about(Models, "Refused: the configuration says what is served");
        change.refuses(&[Cause::Unsupported])
    };
    let operations = [
        Operation::get("/props", props).about(Models, "Describes a model, as llama-server does").asks(const { &[MODEL, AUTOLOAD] })
            .answers(Answer::Json(&["build_info"])).refuses(OF_GRAPHS),
        change("/props", "the configuration says what is served, and each request how its text is generated"),
        Operation::get("/slots", slots).about(Server, "The state of each slot of a model").asks(const { &[MODEL, FAILS] })
            .answers(Answer::List).refuses(OF_GRAPHS).on(Side::Management),
        change("/slots/{id}", "the cache is not saved to files, and all slots share it"),
        Operation::get("/lora-adapters", adapters).about(Models, "The adapters of a model").asks(const { &[MODEL] })
            .answers(Answer::List).refuses(OF_GRAPHS),
        change("/lora-adapters", "each request names its adapters and their scales in `lora`"),
    ];
    operations.map(|operation| operation.listed(false)).into()
}

/// Returns the name and version of this program.
fn build() -> String {
    format!("graphmill-{}", env!("CARGO_PKG_VERSION"))
}

/// Describes a model, after loading it. If there are several graphs and the query names none, the
/// answer has the role `router`, like that of a llama-server with several models.
async fn props(who: RequestContext, query: Query) -> JsonResult {
    query.check(&["model", "autoload"])?;
    let name = query.one("model")?.filter(|name| !name.is_empty());
    let servables = who.servables();
    if name.is_none() && servables.unnamed(|graph| who.sees(graph, None)).is_none() {
        return Ok(Json(json!({ "role": "router", "build_info": build() })));
    }
    if query.boolean("autoload")? == Some(false)
        && let Some(name) = name
    {
        who.find(name)?.servable.plan()?;
    }
    let (ready, model) = with_language_model(&who, name).await?;
    let modalities = ready.servable.reads();
    let (vocab, engine) = (model.vocab(), model.engine());
    let template = |with_tools| {
        let template = model.chat_template(with_tools).ok();
        template.map_or("", |template| template.source())
    };
    let mut props = json!({
        "default_generation_settings": { "n_ctx": engine.context_length() },
        "total_slots": engine.info().max_num_seqs,
        "model_alias": ready.servable.name(),
        "modalities": { "vision": modalities.contains(&"image"), "audio": modalities.contains(&"audio") },
        "chat_template": template(false),
        "bos_token": vocab.bos_text(),
        "eos_token": vocab.eos_text(),
        "build_info": build(),
    });
    if template(true) != template(false) {
        props["chat_template_tool_use"] = template(true).into();
    }
    if who.operates() {
        props["model_path"] = json!(engine.info().path);
    }
    Ok(Json(props))
}

/// Describes each slot of a model.
async fn slots(who: RequestContext, query: Query) -> JsonResult<Vec<Value>> {
    query.check(&["model", "fail_on_no_slot"])?;
    let fails = query.boolean("fail_on_no_slot")? == Some(true);
    let (_, model) = with_language_model(&who, query.one("model")?).await?;
    let engine = model.engine();
    let standings = engine.standings();
    let count = engine.info().max_num_seqs;
    if fails && standings.len() >= count as usize {
        let message = format!("all {count} slots are in use");
        return Err(Failure::new(Cause::Unavailable, message).with_code("no_slot"));
    }
    let context = engine.context_length();
    let slot = |id: u32| {
        let standing = standings.iter().find(|it| it.slot() == Some(id));
        let mut slot = json!({ "id": id, "n_ctx": context, "is_processing": standing.is_some() });
        match standing {
            Some(Standing::Prefills {
                computed, prompt, ..
            }) => {
                slot["n_prompt_tokens"] = (*prompt).into();
                slot["n_prompt_tokens_processed"] = (*computed).into();
            }
            Some(Standing::Generates {
                generated, limit, ..
            }) => {
                let left = limit.saturating_sub(*generated);
                slot["next_token"] =
                    json!({ "has_next_token": left > 0, "n_remain": left, "n_decoded": generated });
            }
            Some(Standing::Queued { .. }) | None => {}
        }
        slot
    };
    Ok(Json((0..count).map(slot).collect()))
}

/// Lists the adapters of a model that the caller may use, numbered from 0.
async fn adapters(who: RequestContext, query: Query) -> JsonResult<Vec<Value>> {
    query.check(&["model"])?;
    let (ready, model) = with_language_model(&who, query.one("model")?).await?;
    let engine = model.engine();
    let adapters = engine.spec().adapters.iter();
    let visible = adapters.filter(|it| who.sees(ready.servable.graph(), Some(&it.name)));
    let adapters = visible.enumerate().map(|(id, adapter)| {
        let mut listed = json!({ "id": id, "name": adapter.name, "scale": adapter.scale.get() });
        if who.operates() {
            listed["path"] = json!(adapter.path);
        }
        listed
    });
    Ok(Json(adapters.collect()))
}
