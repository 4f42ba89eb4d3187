//! An element of the key file, a key or a plan: its fields and their checks.

use std::{num::NonZeroU32, sync::Arc};

use serde::Deserialize;

use super::key::{Digest, KeyEntry, SCOPES, Scope, named_salt, own_salt};

/// Maximum length of a key's name.
const MAX_NAME: usize = 64;
/// Maximum weight of a key.
const MAX_WEIGHT: u32 = 1_000;

/// The fields of an element.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyFields {
    name: String,
    sha256: Option<String>,
    key: Option<String>,
    models: Option<Vec<String>>,
    scopes: Option<Vec<String>>,
    max_priority: Option<i32>,
    requests_per_minute: Option<NonZeroU32>,
    tokens_per_minute: Option<NonZeroU32>,
    max_concurrent_sequences: Option<NonZeroU32>,
    max_queued_requests: Option<NonZeroU32>,
    max_queued_prompt_tokens: Option<NonZeroU32>,
    cache_salt: Option<String>,
    weight: Option<NonZeroU32>,
}

/// Checks the name of a key: length and characters.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    if (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(());
    }
    Err(format!(
        "must be 1 to {MAX_NAME} letters, digits or `-_.@`: it is shown in metrics and the log"
    ))
}

/// Converts an element to an entry, of a plan or of a key. Also returns its errors.
pub(super) fn entry(is_plan: bool, written: KeyFields) -> (Option<KeyEntry>, Vec<String>) {
    let mut wrong = Vec::new();
    let name: Arc<str> = written.name.into();
    if let Err(why) = check_name(&name) {
        wrong.push(format!("`name` {why}"));
    }
    let digest = match (written.sha256, written.key) {
        (None, None) if is_plan => Ok(None),
        _ if is_plan => {
            Err("a plan must not have `sha256` or `key`: it applies to tokens".to_owned())
        }
        (Some(hex), None) => Digest::from_hex(&hex).map(Some).ok_or_else(|| {
            "`sha256` must be 64 hexadecimal digits, as `graphmill key` prints them".to_owned()
        }),
        (None, Some(key)) if !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(Some(Digest::new(key.as_bytes())))
        }
        (None, Some(_)) => Err("`key` must be visible ASCII characters".to_owned()),
        (Some(_), Some(_)) => Err("`sha256` and `key` exclude each other".to_owned()),
        (None, None) => Err("`sha256` or `key` is missing".to_owned()),
    };
    let models = written.models.unwrap_or_else(|| vec!["*".to_owned()]);
    if models.is_empty() || models.iter().any(String::is_empty) {
        wrong.push("`models` must list names or patterns with `*`".to_owned());
    }
    let mut scopes = Vec::new();
    for (index, scope) in written.scopes.iter().flatten().enumerate() {
        match SCOPES.iter().find(|(name, _)| name == scope) {
            Some((_, scope)) => scopes.push(*scope),
            None => wrong.push(format!(
                "`scopes[{index}]` must be `infer`, `admin` or `metrics`"
            )),
        }
    }
    match &written.scopes {
        None => scopes.push(Scope::Infer),
        Some(scopes) if scopes.is_empty() => {
            wrong.push("`scopes` is empty: expected `infer`, `admin` or `metrics`".to_owned());
        }
        Some(_) => {}
    }
    if written.cache_salt.as_deref() == Some("") {
        wrong.push("`cache_salt` must not be empty".to_owned());
    }
    let weight = written.weight.unwrap_or(NonZeroU32::MIN);
    if weight.get() > MAX_WEIGHT {
        wrong.push(format!("`weight` must be from 1 to {MAX_WEIGHT}"));
    }
    let digest = digest.map_err(|message| wrong.push(message)).ok();
    let entry = digest.map(|digest| KeyEntry {
        salt: match &written.cache_salt {
            Some(salt) => named_salt(salt),
            None if is_plan => "".into(),
            None => own_salt(&name),
        },
        name,
        digest,
        models,
        scopes,
        max_priority: written.max_priority,
        requests_per_minute: written.requests_per_minute,
        tokens_per_minute: written.tokens_per_minute,
        max_concurrent_sequences: written.max_concurrent_sequences,
        max_queued_requests: written.max_queued_requests,
        max_queued_prompt_tokens: written.max_queued_prompt_tokens,
        weight,
    });
    (entry, wrong)
}
