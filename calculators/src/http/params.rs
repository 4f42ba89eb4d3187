//! Parameters of generation, from the fields that all dialects share.

use std::sync::Arc;

use graphmill_dialects::{
    Fields,
    bodies::{length::Length, output::Output, run::Run},
    json::Allowance,
};
use graphmill_engine::Result;
use graphmill_llm::SamplingParams;
use serde_json::Value;

use super::{
    OwnParams,
    defaults::Defaults,
    fields::{conflicting, invalid, limited},
    structured,
};
use crate::payload::{Account, GenerationParams, SpecialTokens, Terms, Truncation};

/// Reads the remaining fields. Those that are not set have the given defaults.
pub(super) fn read(
    fields: &mut Fields,
    own: OwnParams,
    run: &Run,
    defaults: &Defaults,
    allowance: &Allowance,
) -> Result<GenerationParams> {
    let defaults = defaults.fields();
    let usual_max_tokens = defaults.get("max_tokens").and_then(Value::as_i64);
    fields.fill(defaults);
    let length: Length = fields.take()?;
    let output: Output = fields.take()?;
    let sampling: SamplingParams = fields.take()?;
    let n = own.n.or(length.n).unwrap_or(1);
    if length.best_of.is_some_and(|best_of| best_of != n) {
        return Err(invalid(
            "best_of",
            format!("must be equal to `n` ({n}): generations are not ranked"),
        ));
    }
    for (name, given) in [
        ("num_assistant_tokens", run.num_assistant_tokens),
        ("max_ngram_size", run.max_ngram_size),
    ] {
        if given.is_some() && run.assistant_confidence_threshold.is_some() {
            return Err(conflicting("assistant_confidence_threshold", name));
        }
    }
    if own.max_tokens == Some(0) && !own.echo {
        return Err(invalid("max_tokens", "must be above 0 without `echo`"));
    }
    let max_tokens = length.max_completion_tokens.or(own.max_tokens);
    let max_tokens = limited(max_tokens.or(usual_max_tokens));
    Ok(GenerationParams {
        sampling: SamplingParams {
            logprobs: own.logprobs,
            ..sampling
        },
        max_tokens,
        min_tokens: length.min_tokens,
        truncation: own.truncation.or(truncation(&length, max_tokens)?),
        stop: (own.stop.or(length.stop.map(Vec::from))).unwrap_or_default(),
        include_stop: length.include_stop_str_in_output,
        stop_tokens: length.stop_token_ids.into(),
        ignore_eos: length.ignore_eos,
        n,
        num_assistant_tokens: run.num_assistant_tokens,
        assistant_confidence_threshold: run.assistant_confidence_threshold,
        max_ngram_size: run.max_ngram_size,
        cache_salt: run.cache_salt.as_str().into(),
        priority: run.priority,
        echo: own.echo,
        bad_words: output.bad_words.clone(),
        special_tokens: match output.skip_special_tokens {
            Some(false) => SpecialTokens::Keep,
            _ => SpecialTokens::Skip,
        },
        constraint: structured::constraint(own.constraint, output, allowance)?,
        reasoning_budget: own.reasoning_budget,
        ..GenerationParams::default()
    })
}

/// Returns the part of a prompt that is read, with room for an answer of this many tokens.
pub(super) fn truncation(length: &Length, max_tokens: Option<u32>) -> Result<Option<Truncation>> {
    let Some(most) = length.truncate_prompt_tokens else {
        return match &length.truncation_side {
            Some(_) => Err(invalid("truncation_side", "needs `truncate_prompt_tokens`")),
            None => Ok(None),
        };
    };
    Ok(Some(Truncation {
        field: "truncate_prompt_tokens",
        tokens: limited(Some(most)),
        room: max_tokens.unwrap_or(1),
        keeps_beginning: length.truncation_side.as_deref() == Some("right"),
    }))
}

/// Applies the tenant, priority and salt of a request's account.
pub(super) fn hold_to(account: &Account, params: &mut GenerationParams) {
    params.tenant = account.tenant;
    let Some(terms) = &account.terms else { return };
    if let Some(most) = terms.max_priority {
        params.priority = params.priority.min(most);
    }
    params.cache_salt = match &*params.cache_salt {
        "" => Arc::clone(&terms.cache_salt),
        // No salt of a request can equal that of a key.
        own => format!("{}\0{own}", terms.cache_salt).into(),
    };
}

/// Raises the priority to the lowest of the model, if the key's maximum is below that.
pub(super) fn lift(terms: &Terms, params: &mut GenerationParams, lowest: i32) {
    if terms.max_priority.is_some_and(|most| most < lowest) {
        params.priority = params.priority.max(lowest);
    }
}
