//! Adapters that a request names by their numbers in the graph.

use graphmill_dialects::bodies::{LLAMA_COMPLETION, llama_server::Adapters};
use graphmill_engine::Result;
use graphmill_llm::{AdapterSpec, NamedAdapter, Number, backend::MAX_ADAPTERS};
use serde_json::json;

use crate::http::fields::{self, invalid};
use crate::payload::JsonBody;

/// Reads the adapters that a request lists, each with its scale, which may be 0.
pub(in crate::http) fn read(
    body: &JsonBody,
    adapters: &[AdapterSpec],
) -> Result<Vec<NamedAdapter>> {
    let Some(lora) = body.get("lora")? else {
        return Ok(Vec::new());
    };
    let alone = JsonBody::from_value(&json!({ "lora": lora }))?;
    let Adapters { lora } = fields::read(LLAMA_COMPLETION, &alone)?.take()?;
    let (mut read, mut applied) = (Vec::new(), 0);
    for (index, wanted) in lora.iter().enumerate() {
        let place = |field: &str| format!("lora[{index}].{field}");
        let adapter = adapters.get(wanted.id as usize).ok_or_else(|| {
            let count = adapters.len();
            let why = format!(
                "must be the `id` of an adapter that `/lora-adapters` lists, which are {count}"
            );
            invalid(place("id"), why)
        })?;
        if lora[..index].iter().any(|other| other.id == wanted.id) {
            return Err(invalid(place("id"), "names an adapter for the second time"));
        }
        let scale = Number::new(wanted.scale)
            .ok_or_else(|| invalid(place("scale"), "must be a finite number"))?;
        applied += usize::from(scale.get() != 0.0);
        if applied > MAX_ADAPTERS {
            let why =
                format!("names one too many: a text can have at most {MAX_ADAPTERS} adapters");
            return Err(invalid(place("id"), why));
        }
        read.push(NamedAdapter {
            name: adapter.name.as_str().into(),
            scale: Some(scale),
        });
    }
    Ok(read)
}
