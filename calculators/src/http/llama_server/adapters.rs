//! Adapters that a request names by their numbers in the graph.

use graphmill_dialects::bodies::{LLAMA_COMPLETION, llama_server::Adapters};
use graphmill_engine::Result;
use graphmill_llm::{AdapterSpec, Number};
use serde_json::json;

use crate::http::fields::{self, invalid};
use crate::payload::JsonBody;

/// Returns the number of the adapter that a request asks for, if it asks for one. An adapter has
/// one scale, because llama.cpp computes all sequences of an adapter together.
pub(super) fn asked(body: &JsonBody, adapters: &[AdapterSpec]) -> Result<Option<usize>> {
    let Some(lora) = body.get("lora")? else {
        return Ok(None);
    };
    let alone = JsonBody::of_value(&json!({ "lora": lora }))?;
    let Adapters { lora } = fields::read(LLAMA_COMPLETION, &alone)?.take()?;
    let mut asked = None;
    for (index, wanted) in lora.iter().enumerate() {
        let place = |field: &str| format!("lora[{index}].{field}");
        let adapter = adapters.get(wanted.id as usize).ok_or_else(|| {
            let count = adapters.len();
            let why = format!(
                "must be the number of one of the graph's adapters, of which it has {count}"
            );
            invalid(place("id"), why)
        })?;
        let scale = adapter.scale.get();
        if wanted.scale == 0.0 {
            continue;
        }
        if Number::new(wanted.scale) != Some(adapter.scale) {
            let why = format!("must be {scale}, as in the graph, or 0");
            return Err(invalid(place("scale"), why));
        }
        if asked.is_some_and(|other| other != wanted.id) {
            return Err(invalid(
                place("id"),
                "names a second adapter, but a text can have only one",
            ));
        }
        asked = Some(wanted.id);
    }
    Ok(asked.map(|id| id as usize))
}
