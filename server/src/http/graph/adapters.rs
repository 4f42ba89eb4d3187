//! Adapters that requests name beside `model`.

use std::sync::Arc;

use graphmill_calculators::{llm::LanguageModel, payload::JsonBody};
use graphmill_llm::{AdapterSpec, NamedAdapter};

use super::RequestHead;
use crate::{
    errors::{Cause, Failure, Result},
    servable::Ready,
};

/// Finds the adapters of a request, which a field of its dialect or `model` names.
pub(super) fn find(
    head: &RequestHead,
    ready: &Ready,
    body: &JsonBody,
) -> Result<Arc<[NamedAdapter]>> {
    let by_model = || NamedAdapter::list(ready.adapter.clone());
    let Some(target) = head.target else {
        return Ok(by_model());
    };
    let models = ready.plan().resources::<LanguageModel>();
    let engine = models.first().map(|model| model.engine());
    let known = engine.as_ref().map_or(&[][..], |it| &it.spec().adapters);
    let graph = ready.servable.graph();
    // Numbers count only these, so that nobody learns of other adapters.
    let is_visible = |it: &&AdapterSpec| head.who.sees(graph, Some(&it.name));
    let visible: Vec<AdapterSpec> = known.iter().filter(is_visible).cloned().collect();
    let listed = target.dialect.adapters(body, &visible)?;
    let is_applied = |it: &&NamedAdapter| it.scale.is_none_or(|scale| scale.get() != 0.0);
    for named in listed.iter().filter(is_applied) {
        let name = &named.name;
        if ready.adapter.as_ref().is_some_and(|other| other != name) {
            let message = format!("`lora` names the adapter `{name}`, and `model` another one");
            return Err(Failure::new(Cause::BadRequest, message).with_field("lora"));
        }
    }
    let is_listed = |name: &Arc<str>| listed.iter().any(|it| it.name == *name);
    Ok(match &ready.adapter {
        Some(name) if !is_listed(name) => by_model(),
        _ => listed.into(),
    })
}
