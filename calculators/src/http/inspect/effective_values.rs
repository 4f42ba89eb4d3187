//! The effective values of a request, and the source of each.

use graphmill_llm::MirostatVersion;
use serde_json::{Map, Value, json};

use super::super::{defaults::Defaults, wire::number};
use crate::payload::{EffectiveValues, GenerationParams, JsonBody};

/// Other names of fields, in any dialect.
const ALIASES: [(&str, &str); 4] = [
    ("repeat_penalty", "repetition_penalty"),
    ("max_completion_tokens", "max_tokens"),
    ("max_output_tokens", "max_tokens"),
    ("stop_sequences", "stop"),
];

/// Returns the effective values of a request, each with its source.
pub(super) fn read(
    body: &JsonBody,
    defaults: &Defaults,
    params: &GenerationParams,
    ignored: &[String],
) -> EffectiveValues {
    let explain = |(field, value): (String, Value)| {
        let mut aliases = ALIASES.iter().filter(|alias| alias.1 == field);
        let source = if body.has(&field) || aliases.any(|alias| body.has(alias.0)) {
            "request"
        } else if defaults.graph.contains_key(&field) {
            "graph"
        } else if defaults.model.contains_key(&field) {
            "model"
        } else {
            "default"
        };
        (field, json!({ "value": value, "source": source }))
    };
    EffectiveValues {
        params: params.clone(),
        values: values(params).into_iter().map(explain).collect(),
        ignored: ignored.to_vec(),
    }
}

/// Returns the parameters of generation, by the names of their fields.
pub(in crate::http) fn values(params: &GenerationParams) -> Map<String, Value> {
    let sampling = &params.sampling;
    // The version is 0 if mirostat is off.
    let mirostat = sampling.mirostat.map_or(0, |it| match it.version {
        MirostatVersion::One => 1,
        MirostatVersion::Two => 2,
    });
    let dry_multiplier = sampling.dry.as_ref().map_or(0.0, |dry| dry.multiplier);
    let biases = sampling.logit_bias.iter();
    let logit_bias = biases.map(|(token, bias)| (token.to_string(), number(*bias)));
    let values = json!({
        "temperature": number(sampling.temperature),
        "top_k": sampling.top_k,
        "top_p": number(sampling.top_p),
        "min_p": number(sampling.min_p),
        "top_n_sigma": number(sampling.top_n_sigma),
        "typical_p": number(sampling.typical_p),
        "xtc_probability": number(sampling.xtc_probability),
        "dynatemp_range": number(sampling.dynatemp_range),
        "mirostat": mirostat,
        "dry_multiplier": number(dry_multiplier),
        "presence_penalty": number(sampling.presence_penalty),
        "frequency_penalty": number(sampling.frequency_penalty),
        "repetition_penalty": number(sampling.repetition_penalty),
        "seed": sampling.seed,
        "logit_bias": logit_bias.collect::<Value>(),
        "max_tokens": params.max_tokens,
        "min_tokens": params.min_tokens,
        "stop": params.stop,
        "include_stop_str_in_output": params.include_stop,
        "stop_token_ids": *params.stop_tokens,
        "ignore_eos": params.ignore_eos,
        "n": params.n,
        "priority": params.priority,
    });
    match values {
        Value::Object(values) => values,
        _ => Map::new(),
    }
}
