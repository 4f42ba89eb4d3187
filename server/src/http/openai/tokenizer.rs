//! `GET /tokenizer_info`: the tokens and the template that clients need to build prompts of their
//! own, under the names that a `tokenizer_config.json` has. vLLM has the endpoint, and `lm_eval`'s
//! remote tokenizer asks for it.

use std::sync::Arc;

use axum::{
    Json,
    extract::{RawQuery, State},
};
use graphmill_calculators::llm::LanguageModel;
use serde_json::{Value, json};

use crate::{
    app::state::App,
    errors::{Cause, Failure},
    http::asker::Asker,
    servable::Choice,
};

/// Of the graph that the query's `model` names; without it, of the only one with a language model.
pub(super) async fn info(
    State(app): State<Arc<App>>,
    asker: Asker,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Failure> {
    let query = query.unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let named = pairs.find(|(name, _)| name == "model");
    let servables = app.servables();
    let name = match (&named, servables.unnamed(|graph| asker.sees(graph, None))) {
        (Some((_, name)), _) if !name.is_empty() => name,
        (_, Some(only)) => only.name(),
        (_, None) => {
            let message = "`model` is missing: there are several graphs, and the query names the one that is meant";
            return Err(Failure::new(Cause::BadRequest, message)
                .of_field("model")
                .with_code("missing_required_parameter"));
        }
    };
    let available = app
        .runner
        .available(name, &Choice::Newest, asker.caller(), None);
    let ready = available.await?;
    let servable = &ready.servable;
    let models = ready.plan().resources::<LanguageModel>();
    let Some(model) = models.first() else {
        let message = format!("the graph `{}` has no language model", servable.name());
        return Err(Failure::new(Cause::NotFound, message).of_field("model"));
    };
    Ok(Json(of(model)))
}

fn of(model: &LanguageModel) -> Value {
    let vocab = model.vocab();
    let text = |token: Option<_>| {
        token.map(|token| {
            let mut bytes = Vec::new();
            vocab.piece(token, true, &mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let template = |with_tools| model.chat_template(with_tools).ok();
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
        "chat_template": template(false).map(|template| template.source().to_owned()),
    })
}
