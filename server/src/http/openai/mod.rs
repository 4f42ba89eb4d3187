//! OpenAI's paths that do not belong to a dialect. `/v1` and `/v3` are the same; `/v3/v1` is
//! accepted for old clients.

pub(super) mod models;

use std::sync::Arc;

use axum::Json;
use graphmill_calculators::{http::dialect::PREFIXES, llm::LanguageModel};
use serde_json::{Value, json};

use super::{
    JsonResult,
    operation::{Answer, Group, OF_GRAPHS, Operation, Parameter, ParameterKind},
    request::{Query, missing},
};
use crate::{
    errors::{Cause, Failure, Result},
    run::RequestContext,
    servable::{Ready, ResolvedGraph, Servable},
};

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    let own = |prefix: &&str| [
        Operation::get(&format!("{prefix}/models"), models::list).about(Group::Models, "Lists the graphs that answer now")
            .answers(Answer::Json(&["data"])),
        Operation::get(&format!("{prefix}/models/{{*name}}"), models::one).about(Group::Models, "Describes a graph").answers(Answer::Json(&["id"]))
            .refuses(OF_GRAPHS),
        tokenizer(&format!("{prefix}/tokenizer_info")),
    ].map(|operation| operation.listed(*prefix == PREFIXES[0]));
    let bare = tokenizer("/tokenizer_info").listed(false);
    PREFIXES.iter().flat_map(own).chain([bare]).collect()
}

#[rustfmt::skip]
fn tokenizer(path: &str) -> Operation {
    Operation::get(path, tokenizer_info)
        .about(Group::Prompts, "The special tokens and the chat template of a model")
        .asks(const { &[Parameter::new("model", ParameterKind::OptionalText, "Name of the graph. Default: the only graph with a language model")] })
        .answers(Answer::Json(&["model", "bos_token", "eos_token", "chat_template"]))
        .refuses(OF_GRAPHS)
}

/// Answers `GET /tokenizer_info`: the tokens and the template that clients need to build their own
/// prompts, with the names of a `tokenizer_config.json`. vLLM has this endpoint, and `lm_eval`'s
/// remote tokenizer uses it. The query's `model` names the graph; without it, the only graph with a
/// language model answers.
async fn tokenizer_info(who: RequestContext, query: Query) -> JsonResult {
    let (_, model) = with_language_model(&who, query.one("model")?).await?;
    Ok(Json(describe(&model)))
}

/// Returns the graph that [`named_or_only`] finds, and its first language model.
pub(super) async fn with_language_model(
    who: &RequestContext,
    name: Option<&str>,
) -> Result<(Ready, Arc<LanguageModel>)> {
    let ready = named_or_only(who, name).await?;
    let mut models = ready.plan().resources::<LanguageModel>().into_iter();
    let model = models.next().ok_or_else(|| {
        let name = ready.servable.name();
        let message = format!("the graph `{name}` has no language model");
        Failure::new(Cause::NotFound, message).with_field("model")
    })?;
    Ok((ready, model))
}

/// Returns the graph that a query names; without a name, the only one with a language model.
pub(super) async fn named_or_only(who: &RequestContext, name: Option<&str>) -> Result<Ready> {
    let servables = who.servables();
    let name = match (name, servables.unnamed(|graph| who.sees(graph, None))) {
        (Some(name), _) if !name.is_empty() => name,
        (_, Some(only)) => only.name(),
        (_, None) => return Err(missing("model", why_to_name(who))),
    };
    // Always the same one of several versions.
    let ResolvedGraph { servable, adapter } = who.find(name)?;
    let newest = servable.name();
    // A key may be for an adapter, and not for its graph.
    let name = adapter.map_or_else(|| newest.to_owned(), |it| format!("{newest}:{it}"));
    who.available(&name, None).await
}

/// Returns the reason why a request must name a graph, if there is no default.
pub(super) fn why_to_name(who: &RequestContext) -> &'static str {
    let servables = who.servables();
    let sees_adapter = |it: &Servable| {
        let mut adapters = it.adapters().into_iter();
        adapters.any(|adapter| who.sees(it.graph(), Some(&adapter)))
    };
    if servables.iter().any(|it| who.sees(it.graph(), None)) {
        "there are several graphs: name one of them"
    } else if servables.iter().any(sees_adapter) {
        "the key is for adapters only: name one of them"
    } else {
        "no graph is available"
    }
}

fn describe(model: &LanguageModel) -> Value {
    let vocab = model.vocab();
    let text = |token: Option<_>| {
        token.map(|token| {
            let mut bytes = Vec::new();
            vocab.piece(token, true, &mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let template = model.chat_template(false).ok();
    let beginning = vocab.tokenize("", true, false).unwrap_or_default();
    json!({
        "model": vocab.model_name(),
        "tokenizer_class": "GraphmillTokenizer",
        "model_max_length": model.engine().context_length(),
        "vocab_size": vocab.n_vocab(),
        "add_bos_token": vocab.bos().is_some_and(|bos| beginning.first() == Some(&bos)),
        "bos_token": text(vocab.bos()),
        "bos_token_id": vocab.bos(),
        "eos_token": text(vocab.eos()),
        "eos_token_id": vocab.eos(),
        "pad_token": text(vocab.pad()),
        "pad_token_id": vocab.pad(),
        "chat_template": template.map(|template| template.source().to_owned()),
    })
}
