//! The effective values of a request, and the source of each.

use graphmill_llm::MirostatVersion;
use serde_json::{Value, json};

use super::super::{defaults::Defaults, wire::number};
use crate::payload::{Explained, GenerationParams, JsonBody, ResolvedValue, ValueSource};

/// The values of a request.
pub(super) fn explained(
    body: &JsonBody,
    defaults: &Defaults,
    params: &GenerationParams,
    ignored: &[String],
) -> Explained {
    let (graph, model) = (json!(defaults.graph), json!(defaults.model));
    let by_request = |name: &&str| body.has(name);
    let values = values(params)
        .into_iter()
        .map(|(field, aliases, value)| {
            let source = if by_request(&field) || aliases.iter().any(by_request) {
                ValueSource::Request
            } else if !graph[field].is_null() {
                ValueSource::Graph
            } else if !model[field].is_null() {
                ValueSource::Model
            } else {
                ValueSource::Default
            };
            ResolvedValue {
                field,
                value,
                source,
            }
        })
        .collect();
    Explained {
        params: params.clone(),
        values,
        ignored: ignored.to_vec(),
    }
}

/// A value's field, the field's other names, and the value.
type Named = (&'static str, &'static [&'static str], Value);

fn values(params: &GenerationParams) -> Vec<Named> {
    let sampling = &params.sampling;
    vec![
        ("temperature", &[], number(sampling.temperature)),
        ("top_k", &[], json!(sampling.top_k)),
        ("top_p", &[], number(sampling.top_p)),
        ("min_p", &[], number(sampling.min_p)),
        ("typical_p", &[], number(sampling.typical_p)),
        ("xtc_probability", &[], number(sampling.xtc_probability)),
        ("dynatemp_range", &[], number(sampling.dynatemp_range)),
        ("mirostat", &[], mirostat(params)),
        ("dry_multiplier", &[], dry_multiplier(params)),
        ("presence_penalty", &[], number(sampling.presence_penalty)),
        ("frequency_penalty", &[], number(sampling.frequency_penalty)),
        (
            "repetition_penalty",
            &["repeat_penalty"],
            number(sampling.repetition_penalty),
        ),
        ("seed", &[], json!(sampling.seed)),
        ("logit_bias", &[], logit_bias(params)),
        (
            "max_tokens",
            &["max_completion_tokens", "max_output_tokens"],
            json!(params.max_tokens),
        ),
        ("min_tokens", &[], json!(params.min_tokens)),
        ("stop", &["stop_sequences"], json!(params.stop)),
        (
            "include_stop_str_in_output",
            &[],
            json!(params.include_stop),
        ),
        ("stop_token_ids", &[], json!(&*params.stop_tokens)),
        ("ignore_eos", &[], json!(params.ignore_eos)),
        ("n", &[], json!(params.n)),
        ("priority", &[], json!(params.priority)),
    ]
}

/// The version, 0 where it is off.
fn mirostat(params: &GenerationParams) -> Value {
    let mirostat = params.sampling.mirostat;
    json!(mirostat.map_or(0, |mirostat| match mirostat.version {
        MirostatVersion::One => 1,
        MirostatVersion::Two => 2,
    }))
}

fn dry_multiplier(params: &GenerationParams) -> Value {
    let dry = params.sampling.dry.as_ref();
    number(dry.map_or(0.0, |dry| dry.multiplier))
}

fn logit_bias(params: &GenerationParams) -> Value {
    let biases = params.sampling.logit_bias.iter();
    biases
        .map(|(token, bias)| (token.to_string(), number(*bias)))
        .collect()
}
