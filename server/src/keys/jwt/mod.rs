//! Tokens in place of keys. A JWT signed by an issuer names the tenant of a request, and a plan of
//! the key file with the tenant's limits.
//!
//! `key_set` contains the issuer's public keys, `source` reads them, and `signature` verifies
//! signatures. `tenants` has a key for each tenant, created with its first token.

mod key_set;
mod signature;
mod source;
mod tenants;

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
};

use arc_swap::ArcSwapOption;
use graphmill_engine::FileStamps;
use jsonwebtoken::{
    Validation, decode, decode_header,
    errors::{Error, ErrorKind},
};
use parking_lot::Mutex;
use reqwest::Url;
use serde_json::{Map, Value};
use tokio::sync::Notify;

use super::{
    KeyError, Keys,
    key::{Key, KeyEntry},
};
use crate::{
    errors::{Cause, Failure},
    file_watch,
};
use key_set::KeySet;
use tenants::Tenants;

/// The options for accepting tokens.
#[derive(Clone, Debug)]
pub struct JwtOptions {
    /// Required issuer: `iss` must equal it.
    pub issuer: String,
    /// Required audience: `aud` must equal or contain it.
    pub audience: String,
    /// Location of the issuer's public keys.
    pub jwks: JwksSource,
    /// Name of the claim that contains the tenant.
    pub tenant_claim: String,
    /// Name of the claim that contains the plan.
    pub plan_claim: String,
}

/// The location of a JSON Web Key Set.
#[derive(Clone, Debug)]
pub enum JwksSource {
    /// File, read again when it changes.
    File(PathBuf),
    /// HTTP or HTTPS URL, requested regularly.
    Url(Url),
}

/// Allowed difference between the issuer's clock and this machine's, in seconds.
const LEEWAY: u64 = 30;
/// Maximum length of a tenant's name, in bytes.
const MAX_TENANT: usize = 256;
/// Plan of tokens that name none.
pub(super) const DEFAULT_PLAN: &str = "default";

/// Verifier of tokens, with the issuer's keys and the tenants seen so far.
pub(super) struct Tokens {
    options: JwtOptions,
    /// State of the file before it was first read.
    opened: FileStamps,
    /// Keys; `None` until the first answer from the URL.
    keys: ArcSwapOption<KeySet>,
    /// Notified when a token has an unknown key.
    wanted: Arc<Notify>,
    tenants: Mutex<Tenants>,
}

impl Tokens {
    /// Reads the issuer's keys if they are in a file.
    pub(super) fn open(options: JwtOptions) -> Result<Self, KeyError> {
        signature::install();
        let (opened, keys) = match &options.jwks {
            JwksSource::File(path) => {
                let opened = file_watch::look_at([path.as_path()]);
                (opened, Some(Arc::new(source::read(path)?)))
            }
            JwksSource::Url(_) => (FileStamps::default(), None),
        };
        tracing::info!("tokens of `{}` are accepted", options.issuer);
        Ok(Self {
            options,
            opened,
            keys: keys.into(),
            wanted: Arc::default(),
            tenants: Mutex::default(),
        })
    }

    /// Replaces the issuer's keys, and logs a change of their number.
    fn take(&self, keys: KeySet) {
        let count = keys.len();
        let before = self.keys.swap(Some(Arc::new(keys)));
        if before.is_none_or(|before| before.len() != count) {
            tracing::info!("the issuer of tokens has {count} keys");
        }
    }

    /// Returns true if a credential has the form of a token.
    pub(super) fn is_one(presented: &[u8]) -> bool {
        let parts = presented.split(|byte| *byte == b'.').count();
        parts == 3 && presented.starts_with(b"ey")
    }

    /// Returns the key of the tenant in a token, with the limits of one of `plans`.
    pub(super) fn find(&self, token: &[u8], plans: &[Arc<KeyEntry>]) -> Result<Arc<Key>, Failure> {
        let claims = self.claims(token)?;
        let claim = &self.options.tenant_claim;
        let tenant = claims.get(claim).and_then(Value::as_str);
        let tenant = tenant.filter(|name| is_name(name)).ok_or_else(|| {
            invalid(format!(
                "the claim `{claim}` of the token must be a string of at most {MAX_TENANT} bytes"
            ))
        })?;
        let plan = self.plan(&claims, plans)?;
        Ok(self.tenants.lock().key(tenant, plan))
    }

    /// Returns the claims of a token, after verifying its signature, issuer, audience and times.
    fn claims(&self, token: &[u8]) -> Result<Map<String, Value>, Failure> {
        let header = decode_header(token).map_err(|error| refused(&error))?;
        if header.crit.is_some() {
            return Err(invalid("the token has critical extensions (`crit`)"));
        }
        let Some(keys) = self.keys.load_full() else {
            let message = "the public keys of the token's issuer are not available yet";
            return Err(Failure::new(Cause::Unavailable, message).with_code("issuer_unavailable"));
        };
        let Some(key) = keys.find(header.kid.as_deref(), header.alg) else {
            self.wanted.notify_one();
            let why =
                "the token is signed with a key or an algorithm that its issuer does not list";
            return Err(invalid(why));
        };
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.options.issuer]);
        validation.set_audience(&[&self.options.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let token = decode(token, key, &validation).map_err(|error| refused(&error))?;
        let claims: Map<String, Value> = token.claims;
        // The library would accept a list that contains the issuer.
        if !claims["iss"].is_string() {
            return Err(invalid("the token's `iss` is not a string"));
        }
        Ok(claims)
    }

    /// Returns the first plan that the claim names, or else the default plan.
    fn plan(
        &self,
        claims: &Map<String, Value>,
        plans: &[Arc<KeyEntry>],
    ) -> Result<Arc<KeyEntry>, Failure> {
        let of_name = |name: &str| plans.iter().find(|plan| &*plan.name == name);
        let named = match claims.get(&self.options.plan_claim) {
            Some(Value::String(names)) => names.split_whitespace().find_map(of_name),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).find_map(of_name),
            _ => None,
        };
        let plan = named.or_else(|| of_name(DEFAULT_PLAN));
        plan.map(Arc::clone).ok_or_else(|| {
            let claim = &self.options.plan_claim;
            let message = format!(
                "the token names no plan of this server (`{claim}`), and there is no plan `{DEFAULT_PLAN}`"
            );
            Failure::new(Cause::Forbidden, message)
        })
    }
}

/// Returns true if a string is a valid name of a tenant, which is shown in the log.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_TENANT && !name.chars().any(char::is_control)
}

fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(Cause::NoKey, message).with_code("invalid_token")
}

/// Explains why a token is refused, without its contents.
fn refused(error: &Error) -> Failure {
    invalid(match error.kind() {
        ErrorKind::ExpiredSignature => "the token has expired",
        ErrorKind::ImmatureSignature => "the token is not valid yet",
        ErrorKind::InvalidIssuer => "the token is from another issuer",
        ErrorKind::InvalidAudience => "the token is for another audience",
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => {
            "the token has no valid `exp`, `iss` or `aud`"
        }
        ErrorKind::InvalidSignature => "the signature of the token is wrong",
        _ => "the token is not a JWT signed with a public key",
    })
}

/// Keeps the issuer's keys up to date, as long as the keys are in use.
pub(crate) async fn watch(keys: Weak<Keys>) {
    let Some(tokens) = keys.upgrade().and_then(|keys| keys.tokens.clone()) else {
        return;
    };
    let (jwks, opened) = (tokens.options.jwks.clone(), tokens.opened.clone());
    let weak = Arc::downgrade(&tokens);
    drop(tokens);
    match jwks {
        JwksSource::File(path) => source::follow(path, opened, weak).await,
        JwksSource::Url(url) => source::ask(url, weak).await,
    }
}
