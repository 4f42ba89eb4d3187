//! Adapters that requests name beside `model`.

use std::sync::Arc;

use graphmill_calculators::{llm::LanguageModel, payload::JsonBody};

use super::Head;
use crate::{
    errors::{Cause, Failure},
    servable::Ready,
};

/// The adapter of a request: the one that a field of its dialect names, or `model`.
pub(super) fn asked(
    head: &Head,
    ready: &Ready,
    body: &JsonBody,
) -> Result<Option<Arc<str>>, Failure> {
    let by_model = ready.adapter.clone();
    let Some(target) = head.target else {
        return Ok(by_model);
    };
    let models = ready.plan().resources::<LanguageModel>();
    let engine = models.first().map(|model| model.engine());
    let known = engine.as_ref().map_or(&[][..], |it| &it.spec().adapters);
    let Some(place) = target.dialect.adapter(body, known)? else {
        return Ok(by_model);
    };
    let (graph, name) = (ready.servable.graph(), &*known[place].name);
    if !head.who.sees(graph, Some(name)) {
        let message = "the key is not for the adapter that `lora` names";
        return Err(Failure::new(Cause::Forbidden, message).of_field("lora"));
    }
    match by_model {
        Some(other) if *other != *name => {
            let message = format!("`lora` names the adapter `{name}`, and `model` another one");
            Err(Failure::new(Cause::BadRequest, message).of_field("lora"))
        }
        _ => Ok(Some(name.into())),
    }
}
