//! How tokens are generated: the sampling and length fields that both endpoints share.

use std::ops::RangeInclusive;
use std::sync::Arc;

use graphmill_engine::Result;
use graphmill_llm::{SamplingParams, SpeculationParams, Token};
use serde_json::Value;

use super::{
    fields::{Fields, invalid, wrong_type},
    logprobs, reasoning,
    request::OpenAIRequestOptions,
};
use crate::payload::{Endpoint, GenerationParams, SpecialTokens};

/// Most stop strings of one request.
const MAX_STOPS: usize = 16;
/// Most generations of one prompt.
const MAX_N: i64 = 128;

/// Reads the fields; `defaults` fills in what the request leaves open.
pub(super) fn read(
    body: Fields<'_>,
    endpoint: Endpoint,
    defaults: &OpenAIRequestOptions,
) -> Result<GenerationParams> {
    let n = body.integer("n", 1..=MAX_N)?.unwrap_or(1);
    let best_of = body.integer("best_of", 1..=MAX_N)?.unwrap_or(n);
    if best_of != n {
        return Err(invalid(
            "best_of",
            format!("must be equal to `n` ({n}): generations are not ranked"),
        ));
    }
    refuse_what_sampling_cannot_do(body)?;

    let assistant_confidence_threshold =
        body.number("assistant_confidence_threshold", 0.0..=1.0)?;
    let num_assistant_tokens = small(
        body,
        "num_assistant_tokens",
        0..=SpeculationParams::MOST_DRAFTS,
    )?;
    let max_ngram_size = small(body, "max_ngram_size", 1..=SpeculationParams::LONGEST_NGRAM)?;
    for (name, given) in [
        ("num_assistant_tokens", num_assistant_tokens.is_some()),
        ("max_ngram_size", max_ngram_size.is_some()),
    ] {
        if given && assistant_confidence_threshold.is_some() {
            return Err(invalid(
                "assistant_confidence_threshold",
                format!("cannot be used together with `{name}`"),
            ));
        }
    }
    let priority = body.integer("priority", i64::from(i32::MIN)..=i64::from(i32::MAX))?;
    let max_tokens = body.count("max_tokens", 1)?;
    let max_completion_tokens = body.count("max_completion_tokens", 1)?;
    Ok(GenerationParams {
        sampling: SamplingParams {
            logprobs: logprobs::read(body, endpoint)?,
            ..sampling(body, defaults)?
        },
        max_tokens: max_completion_tokens.or(max_tokens).or(defaults.max_tokens),
        min_tokens: body.count("min_tokens", 0)?.unwrap_or(0),
        stop: stop(body)?,
        include_stop: body.bool("include_stop_str_in_output")?.unwrap_or(false),
        stop_tokens: stop_tokens(body)?,
        ignore_eos: body.bool("ignore_eos")?.unwrap_or(false),
        n: n as u32,
        num_assistant_tokens,
        assistant_confidence_threshold,
        max_ngram_size,
        cache_salt: cache_salt(body)?,
        priority: priority.unwrap_or(0) as i32,
        constraint: None,
        echo: false,
        special_tokens: match body.bool("skip_special_tokens")? {
            Some(false) => SpecialTokens::Keep,
            _ => SpecialTokens::Skip,
        },
        reasoning_budget: None,
    })
}

/// Reads the fields that only chats have.
pub(super) fn of_chat(body: Fields<'_>, params: &mut GenerationParams) -> Result<()> {
    params.reasoning_budget = reasoning::budget(body)?;
    if params.special_tokens == SpecialTokens::Skip {
        // the parsers behind the model take them out
        params.special_tokens = SpecialTokens::Markers;
    }
    Ok(())
}

fn small(body: Fields<'_>, name: &'static str, range: RangeInclusive<u32>) -> Result<Option<u32>> {
    let (start, end) = range.into_inner();
    let number = body.integer(name, i64::from(start)..=i64::from(end))?;
    Ok(number.map(|number| number as u32))
}

/// An empty salt would isolate nothing, whatever its sender means by it.
fn cache_salt(body: Fields<'_>) -> Result<Arc<str>> {
    match body.str("cache_salt")? {
        Some("") => Err(invalid("cache_salt", "must not be empty")),
        salt => Ok(Arc::from(salt.unwrap_or_default())),
    }
}

fn sampling(body: Fields<'_>, defaults: &OpenAIRequestOptions) -> Result<SamplingParams> {
    let usual = SamplingParams::default();
    let top_k = body.integer("top_k", -1..=i64::from(i32::MAX))?;
    let seed = body.integer("seed", 0..=i64::MAX)?;
    Ok(SamplingParams {
        temperature: body
            .number("temperature", 0.0..=2.0)?
            .or(defaults.temperature)
            .unwrap_or(usual.temperature),
        top_k: top_k
            .map(|k| k as i32)
            .or(defaults.top_k)
            .unwrap_or(usual.top_k),
        top_p: body
            .number("top_p", 0.0..=1.0)?
            .or(defaults.top_p)
            .unwrap_or(usual.top_p),
        min_p: body
            .number("min_p", 0.0..=1.0)?
            .or(defaults.min_p)
            .unwrap_or(usual.min_p),
        presence_penalty: body.number("presence_penalty", -2.0..=2.0)?.unwrap_or(0.0),
        frequency_penalty: body.number("frequency_penalty", -2.0..=2.0)?.unwrap_or(0.0),
        repetition_penalty: repetition_penalty(body)?
            .or(defaults.repetition_penalty)
            .unwrap_or(usual.repetition_penalty),
        seed: seed.map(|seed| seed as u64),
        logit_bias: logit_bias(body)?,
        ..usual
    })
}

fn repetition_penalty(body: Fields<'_>) -> Result<Option<f32>> {
    let penalty = body.number("repetition_penalty", 0.0..=f32::MAX)?;
    if penalty == Some(0.0) {
        return Err(invalid(
            "repetition_penalty",
            "must be above 0; 1 changes nothing",
        ));
    }
    Ok(penalty)
}

fn logit_bias(body: Fields<'_>) -> Result<Vec<(Token, f32)>> {
    let Some(biases) = body.object("logit_bias")? else {
        return Ok(Vec::new());
    };
    biases
        .iter()
        .map(|(token, bias)| {
            let field = || format!("logit_bias.{token}");
            let id = token
                .parse()
                .map_err(|_| invalid(field(), "must have a token id for a key"))?;
            match bias.as_f64() {
                Some(bias) if (-100.0..=100.0).contains(&bias) => Ok((id, bias as f32)),
                Some(bias) => Err(invalid(
                    field(),
                    format!("must be between -100 and 100, not {bias}"),
                )),
                None => Err(wrong_type(field(), "a number", bias)),
            }
        })
        .collect()
}

fn stop(body: Fields<'_>) -> Result<Vec<String>> {
    let mut stops = Vec::new();
    match body.get("stop") {
        None => {}
        Some(Value::String(stop)) => stops.push(stop.clone()),
        Some(Value::Array(list)) if list.len() > MAX_STOPS => {
            return Err(invalid(
                "stop",
                format!("must have at most {MAX_STOPS} strings, not {}", list.len()),
            ));
        }
        Some(Value::Array(list)) => {
            for (index, stop) in list.iter().enumerate() {
                let Value::String(stop) = stop else {
                    return Err(wrong_type(format!("stop[{index}]"), "a string", stop));
                };
                if !stops.contains(stop) {
                    stops.push(stop.clone());
                }
            }
        }
        Some(other) => return Err(wrong_type("stop", "a string or an array of strings", other)),
    }
    if stops.iter().any(String::is_empty) {
        return Err(invalid("stop", "must not have an empty string"));
    }
    Ok(stops)
}

fn stop_tokens(body: Fields<'_>) -> Result<Vec<Token>> {
    let Some(list) = body.array("stop_token_ids")? else {
        return Ok(Vec::new());
    };
    list.iter()
        .enumerate()
        .map(|(index, token)| token_id(token, || format!("stop_token_ids[{index}]")))
        .collect()
}

/// A token id at `field`.
pub(super) fn token_id(value: &Value, field: impl Fn() -> String) -> Result<Token> {
    match value.as_i64().map(Token::try_from) {
        Some(Ok(token)) if token >= 0 => Ok(token),
        Some(_) => Err(invalid(field(), format!("must be a token id, not {value}"))),
        None => Err(wrong_type(field(), "a token id", value)),
    }
}

/// Fields that would change the answer in ways these nodes do not know.
fn refuse_what_sampling_cannot_do(body: Fields<'_>) -> Result<()> {
    let is = |expected: f64| move |value: &Value| value.as_f64() == Some(expected);
    let no = |value: &Value| value == &Value::Bool(false);
    body.unsupported("length_penalty", is(1.0))?;
    body.unsupported("use_beam_search", no)?;
    body.unsupported("response_format", |value| value["type"] == "text")?;
    for guided in [
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "grammar",
        "structured_outputs",
    ] {
        body.unsupported(guided, |_| false)?;
    }
    Ok(())
}
