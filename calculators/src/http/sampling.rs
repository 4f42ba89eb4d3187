//! The sampling fields.

use graphmill_engine::Result;
use graphmill_llm::{DryParams, LogitBias, MirostatParams, MirostatVersion, SamplingParams};
use serde_json::Value;

use super::{
    defaults::OpenAIRequestOptions,
    fields::{Fields, at_most, invalid, written, wrong_type},
    limits::{MAX_BIASES, MAX_BREAKER_CHARS, MAX_BREAKERS},
    params::token_id,
};

/// Reads the fields; `defaults` fills in what the request leaves open.
pub(super) fn read(body: Fields<'_>, defaults: &OpenAIRequestOptions) -> Result<SamplingParams> {
    let usual = SamplingParams::default();
    Ok(SamplingParams {
        temperature: body
            .number("temperature")?
            .or(defaults.temperature)
            .unwrap_or(usual.temperature),
        top_k: body
            .integer("top_k")?
            .map(|k| k as i32)
            .or(defaults.top_k)
            .unwrap_or(usual.top_k),
        top_p: body
            .number("top_p")?
            .or(defaults.top_p)
            .unwrap_or(usual.top_p),
        min_p: body
            .number("min_p")?
            .or(defaults.min_p)
            .unwrap_or(usual.min_p),
        typical_p: body.number("typical_p")?.unwrap_or(usual.typical_p),
        xtc_probability: body
            .number("xtc_probability")?
            .unwrap_or(usual.xtc_probability),
        xtc_threshold: body.number("xtc_threshold")?.unwrap_or(usual.xtc_threshold),
        dynatemp_range: body
            .number("dynatemp_range")?
            .unwrap_or(usual.dynatemp_range),
        dynatemp_exponent: body
            .number("dynatemp_exponent")?
            .unwrap_or(usual.dynatemp_exponent),
        mirostat: mirostat(body)?,
        dry: dry(body)?,
        presence_penalty: body.number("presence_penalty")?.unwrap_or(0.0),
        frequency_penalty: body.number("frequency_penalty")?.unwrap_or(0.0),
        repetition_penalty: body
            .number("repetition_penalty")?
            .or(body.number("repeat_penalty")?)
            .or(defaults.repetition_penalty)
            .unwrap_or(usual.repetition_penalty),
        seed: body.integer("seed")?.map(|seed| seed as u64),
        logit_bias: logit_bias(body)?,
        ..usual
    })
}

fn mirostat(body: Fields<'_>) -> Result<Option<MirostatParams>> {
    let version = match body.integer("mirostat")? {
        Some(1) => MirostatVersion::One,
        Some(2) => MirostatVersion::Two,
        _ => return Ok(None),
    };
    Ok(Some(MirostatParams {
        version,
        tau: body.number("mirostat_tau")?.unwrap_or(5.0),
        eta: body.number("mirostat_eta")?.unwrap_or(0.1),
    }))
}

fn dry(body: Fields<'_>) -> Result<Option<DryParams>> {
    let breakers = dry_breakers(body)?;
    let multiplier = body.number("dry_multiplier")?.unwrap_or(0.0);
    let last_tokens = body.integer("dry_penalty_last_n")?.unwrap_or(-1);
    if multiplier <= 0.0 || last_tokens == 0 {
        return Ok(None);
    }
    Ok(Some(DryParams {
        multiplier,
        base: body.number("dry_base")?.unwrap_or(1.75),
        allowed_length: body
            .integer("dry_allowed_length")?
            .map_or(2, |length| length as u32),
        last_tokens: u32::try_from(last_tokens).ok(),
        breakers,
    }))
}

fn dry_breakers(body: Fields<'_>) -> Result<Vec<String>> {
    let Some(list) = body.array("dry_sequence_breakers")? else {
        return Ok(["\n", ":", "\"", "*"].map(String::from).into());
    };
    if list.len() > MAX_BREAKERS {
        let message = format!(
            "must have at most {MAX_BREAKERS} strings, not {}",
            list.len()
        );
        return Err(invalid("dry_sequence_breakers", message));
    }
    list.iter()
        .enumerate()
        .map(|(index, breaker)| {
            let field = format!("dry_sequence_breakers[{index}]");
            match breaker {
                Value::String(text) if (1..=MAX_BREAKER_CHARS).contains(&text.chars().count()) => {
                    Ok(text.clone())
                }
                Value::String(_) => Err(invalid(
                    field,
                    format!("must have between 1 and {MAX_BREAKER_CHARS} characters"),
                )),
                other => Err(wrong_type(field, "a string", other)),
            }
        })
        .collect()
}

/// Biases as an object by token id, or as an array of pairs.
fn logit_bias(body: Fields<'_>) -> Result<LogitBias> {
    match body.get("logit_bias")? {
        None => Ok(LogitBias::default()),
        Some(Value::Object(biases)) => {
            at_most("logit_bias", biases.len(), MAX_BIASES, "tokens")?;
            biases
                .iter()
                .map(|(token, value)| {
                    let field = format!("logit_bias.{token}");
                    let Ok(id) = token.parse() else {
                        return Err(invalid(field, "must have a token id for a key"));
                    };
                    Ok((id, bias(value, field)?))
                })
                .collect()
        }
        Some(Value::Array(pairs)) => {
            at_most("logit_bias", pairs.len(), MAX_BIASES, "tokens")?;
            pairs
                .iter()
                .enumerate()
                .map(|(index, pair)| {
                    let field = format!("logit_bias[{index}]");
                    match pair.as_array().map(Vec::as_slice) {
                        Some([token, Value::Bool(false)]) => {
                            Ok((token_id(token, || field.clone())?, f32::NEG_INFINITY))
                        }
                        Some([token, value]) => {
                            Ok((token_id(token, || field.clone())?, bias(value, field)?))
                        }
                        _ => Err(wrong_type(field, "a pair of a token id and a bias", pair)),
                    }
                })
                .collect()
        }
        Some(other) => Err(wrong_type("logit_bias", "an object or an array", other)),
    }
}

fn bias(value: &Value, field: String) -> Result<f32> {
    match value.as_f64() {
        Some(bias) if (-100.0..=100.0).contains(&bias) => Ok(bias as f32),
        Some(_) => Err(invalid(
            field,
            format!("must be between -100 and 100, not {}", written(value)),
        )),
        None => Err(wrong_type(field, "a number", value)),
    }
}
