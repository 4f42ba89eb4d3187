//! How a token is chosen: the fields of sampling.

use graphmill_engine::Result;
use graphmill_llm::{SamplingParams, Token};
use serde_json::Value;

use super::{
    fields::{Fields, invalid, wrong_type},
    params::token_id,
    request::OpenAIRequestOptions,
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
        presence_penalty: body.number("presence_penalty")?.unwrap_or(0.0),
        frequency_penalty: body.number("frequency_penalty")?.unwrap_or(0.0),
        repetition_penalty: body
            .number("repetition_penalty")?
            .or(defaults.repetition_penalty)
            .unwrap_or(usual.repetition_penalty),
        seed: body.integer("seed")?.map(|seed| seed as u64),
        logit_bias: logit_bias(body)?,
        ..usual
    })
}

/// Biases as an object by token id, or as an array of pairs.
fn logit_bias(body: Fields<'_>) -> Result<Vec<(Token, f32)>> {
    match body.get("logit_bias") {
        None => Ok(Vec::new()),
        Some(Value::Object(biases)) => biases
            .iter()
            .map(|(token, value)| {
                let field = format!("logit_bias.{token}");
                let Ok(id) = token.parse() else {
                    return Err(invalid(field, "must have a token id for a key"));
                };
                Ok((id, bias(value, field)?))
            })
            .collect(),
        Some(Value::Array(pairs)) => pairs
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
            .collect(),
        Some(other) => Err(wrong_type("logit_bias", "an object or an array", other)),
    }
}

fn bias(value: &Value, field: String) -> Result<f32> {
    match value.as_f64() {
        Some(bias) if (-100.0..=100.0).contains(&bias) => Ok(bias as f32),
        Some(bias) => Err(invalid(
            field,
            format!("must be between -100 and 100, not {bias}"),
        )),
        None => Err(wrong_type(field, "a number", value)),
    }
}
