//! How tokens are generated: the sampling and length fields that both endpoints share.

use std::sync::Arc;

use graphmill_engine::Result;
use graphmill_llm::{SamplingParams, Token, TokenSet};
use serde_json::Value;

use super::{
    defaults::OpenAIRequestOptions,
    fields::{Fields, at_most, invalid, whole, written, wrong_type},
    limits::{MAX_STOP_CHARS, MAX_STOPS},
    logprobs, sampling, structured,
};
use crate::payload::{Account, GenerationParams, SpecialTokens, Terms};

/// Reads the fields; `defaults` fills in what the request leaves open.
pub(super) fn read(
    body: Fields<'_>,
    is_chat: bool,
    defaults: &OpenAIRequestOptions,
) -> Result<GenerationParams> {
    let n = count(body, "n")?.unwrap_or(1);
    let best_of = count(body, "best_of")?.unwrap_or(n);
    if best_of != n {
        return Err(invalid(
            "best_of",
            format!("must be equal to `n` ({n}): generations are not ranked"),
        ));
    }

    let assistant_confidence_threshold = body.number("assistant_confidence_threshold")?;
    let num_assistant_tokens = count(body, "num_assistant_tokens")?;
    let max_ngram_size = count(body, "max_ngram_size")?;
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
    let echo = !is_chat && body.bool("echo")?.unwrap_or(false);
    let max_tokens = Limit::read(body, "max_tokens")?;
    if matches!(max_tokens, Some(Limit(Some(0)))) && !echo {
        return Err(invalid("max_tokens", "must be above 0 without `echo`"));
    }
    let max_completion_tokens = Limit::read(body, "max_completion_tokens")?;
    let priority = body.integer("priority")?;
    Ok(GenerationParams {
        sampling: SamplingParams {
            logprobs: logprobs::read(body, is_chat)?,
            ..sampling::read(body, defaults)?
        },
        max_tokens: match max_completion_tokens.or(max_tokens) {
            Some(Limit(limit)) => limit,
            None => defaults.max_tokens,
        },
        min_tokens: count(body, "min_tokens")?.unwrap_or(0),
        stop: stop(body)?,
        include_stop: body.bool("include_stop_str_in_output")?.unwrap_or(false),
        stop_tokens: stop_tokens(body)?,
        ignore_eos: body.bool("ignore_eos")?.unwrap_or(false),
        n,
        num_assistant_tokens,
        assistant_confidence_threshold,
        max_ngram_size,
        cache_salt: cache_salt(body)?,
        adapter: None,
        priority: priority.unwrap_or(0) as i32,
        tenant: None,
        place: None,
        constraint: structured::read(body)?,
        echo,
        special_tokens: match body.bool("skip_special_tokens")? {
            Some(false) => SpecialTokens::Keep,
            _ => SpecialTokens::Skip,
        },
        reasoning_budget: None,
        reasoning_limit: None,
        demands_call: false,
        constrains_calls: false,
    })
}

/// Holds a request to what its account says.
pub(super) fn hold_to(account: &Account, params: &mut GenerationParams) {
    params.tenant = account.tenant;
    let Some(terms) = &account.terms else { return };
    if let Some(most) = terms.max_priority {
        params.priority = params.priority.min(most);
    }
    params.cache_salt = match &*params.cache_salt {
        "" => Arc::clone(&terms.cache_salt),
        // No salt of a request is that of a key.
        own => format!("{}\0{own}", terms.cache_salt).into(),
    };
}

/// A key whose highest priority is below the lowest of the model has that.
pub(super) fn lift(terms: &Terms, params: &mut GenerationParams, lowest: i32) {
    if terms.max_priority.is_some_and(|most| most < lowest) {
        params.priority = params.priority.max(lowest);
    }
}

/// Most tokens, as a request says it; none for as many as there is room for.
struct Limit(Option<u32>);

impl Limit {
    fn read(body: Fields<'_>, name: &'static str) -> Result<Option<Self>> {
        let limit = body.integer(name)?;
        Ok(limit.map(|limit| Self(u32::try_from(limit).ok())))
    }
}

/// A number of the table that is no more than 32 bits hold.
fn count(body: Fields<'_>, name: &'static str) -> Result<Option<u32>> {
    Ok(body.integer(name)?.map(|number| number as u32))
}

/// An empty salt would isolate nothing, whatever its sender means by it.
fn cache_salt(body: Fields<'_>) -> Result<Arc<str>> {
    match body.str("cache_salt")? {
        Some("") => Err(invalid("cache_salt", "must not be empty")),
        salt => Ok(Arc::from(salt.unwrap_or_default())),
    }
}

fn stop(body: Fields<'_>) -> Result<Vec<String>> {
    let mut stops = Vec::new();
    match body.get("stop")? {
        None => {}
        Some(Value::String(stop)) if stop.is_empty() => {
            return Err(invalid("stop", "must not be empty"));
        }
        Some(Value::String(stop)) => {
            at_most("stop", stop.chars().count(), MAX_STOP_CHARS, "characters")?;
            stops.push(stop.clone());
        }
        Some(Value::Array(list)) => {
            at_most("stop", list.len(), MAX_STOPS, "strings")?;
            for (index, stop) in list.iter().enumerate() {
                let field = format!("stop[{index}]");
                let Value::String(stop) = stop else {
                    return Err(wrong_type(field, "a string", stop));
                };
                if stop.is_empty() {
                    return Err(invalid(field, "must not be empty"));
                }
                at_most(field, stop.chars().count(), MAX_STOP_CHARS, "characters")?;
                if !stops.contains(stop) {
                    stops.push(stop.clone());
                }
            }
        }
        Some(other) => return Err(wrong_type("stop", "a string or an array of strings", other)),
    }
    Ok(stops)
}

fn stop_tokens(body: Fields<'_>) -> Result<TokenSet> {
    let Some(list) = body.array("stop_token_ids")? else {
        return Ok(TokenSet::default());
    };
    list.iter()
        .enumerate()
        .map(|(index, token)| token_id(token, || format!("stop_token_ids[{index}]")))
        .collect()
}

/// A token id at `field`.
pub(super) fn token_id(value: &Value, field: impl Fn() -> String) -> Result<Token> {
    match whole(value).map(Token::try_from) {
        Some(Ok(token)) if token >= 0 => Ok(token),
        Some(_) => Err(invalid(
            field(),
            format!("must be a token id, not {}", written(value)),
        )),
        None => Err(wrong_type(field(), "a token id", value)),
    }
}
