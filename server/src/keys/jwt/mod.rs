//! Tokens in place of keys: a JWT that an issuer has signed names the tenant of a request, and the
//! plan of the key file with the tenant's limits.
//!
//! The issuer's public keys are a `key_set`, read from where `source` says; `signature` checks with
//! them. Each tenant has a key of its own in `tenants`, made when its first token comes.

mod key_set;
mod signature;
mod source;
mod tenants;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use arc_swap::ArcSwapOption;
use graphmill_engine::FileStamps;
use jsonwebtoken::{
    Validation, decode, decode_header,
    errors::{Error, ErrorKind},
};
use reqwest::Url;
use serde_json::{Map, Value};
use tokio::sync::Notify;

use super::{
    KeyError, Keys,
    key::{Entry, Key},
};
use crate::{
    errors::{Cause, Failure},
    file_watch,
};
use key_set::KeySet;
use tenants::Tenants;

/// Whose tokens are accepted, and what they say.
#[derive(Clone, Debug)]
pub struct JwtOptions {
    /// What a token's `iss` has to be.
    pub issuer: String,
    /// What its `aud` has to be, or have.
    pub audience: String,
    /// Where the issuer's public keys are.
    pub jwks: JwksSource,
    /// The claim that names the tenant.
    pub tenant_claim: String,
    /// The claim that names the plan.
    pub plan_claim: String,
}

/// Where a JSON Web Key Set is.
#[derive(Clone, Debug)]
pub enum JwksSource {
    /// A file, which is read again when it changes.
    File(PathBuf),
    /// An address with `http` or `https`, which is asked again now and then.
    Url(Url),
}

/// By how many seconds the issuer's clock may differ from this machine's.
const LEEWAY: u64 = 30;
/// Longest name of a tenant, in bytes.
const MAX_TENANT: usize = 256;
/// The plan of tokens that name none.
pub(super) const DEFAULT_PLAN: &str = "default";

/// What checks tokens.
pub(super) struct Tokens {
    options: JwtOptions,
    /// The file as it was before it was first read.
    opened: FileStamps,
    /// None until an address has answered for the first time.
    keys: ArcSwapOption<KeySet>,
    /// Told when a token is signed with a key that is not known.
    wanted: Arc<Notify>,
    tenants: Mutex<Tenants>,
}

impl Tokens {
    /// Reads the issuer's keys, if they are in a file.
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

    /// Puts other keys of the issuer in the place of those that it had.
    fn take(&self, keys: KeySet) {
        let count = keys.len();
        let before = self.keys.swap(Some(Arc::new(keys)));
        if before.is_none_or(|before| before.len() != count) {
            tracing::info!("the issuer of tokens has {count} keys");
        }
    }

    /// Whether what a client presents has the form of a token.
    pub(super) fn is_one(presented: &[u8]) -> bool {
        let parts = presented.split(|byte| *byte == b'.').count();
        parts == 3 && presented.starts_with(b"ey")
    }

    /// The key of the tenant whose token this is, with the limits of one of these plans.
    pub(super) fn find(&self, token: &[u8], plans: &[Arc<Entry>]) -> Result<Arc<Key>, Failure> {
        let claims = self.claims(token)?;
        let tenant = match claims.get(&self.options.tenant_claim) {
            Some(Value::String(name)) if is_name(name) => name,
            _ => {
                let claim = &self.options.tenant_claim;
                return Err(invalid(format!(
                    "the token has no claim `{claim}` that is a text of at most {MAX_TENANT} bytes"
                )));
            }
        };
        let plan = self.plan(&claims, plans)?;
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(tenants.key(tenant, plan))
    }

    /// What a token claims, once it is certain that the issuer has signed it for this server, and
    /// that its time is now.
    fn claims(&self, token: &[u8]) -> Result<Map<String, Value>, Failure> {
        let header = decode_header(token).map_err(|error| refused(&error))?;
        if header.crit.is_some() {
            return Err(invalid("the token has critical extensions (`crit`)"));
        }
        let Some(keys) = self.keys.load_full() else {
            let message = "the public keys of the tokens' issuer are not there yet";
            return Err(Failure::new(Cause::Unavailable, message).with_code("issuer_unavailable"));
        };
        let Some(key) = keys.find(header.kid.as_deref(), header.alg) else {
            self.wanted.notify_one();
            return Err(invalid(
                "the token is signed with a key or an algorithm that its issuer does not list",
            ));
        };
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.options.issuer]);
        validation.set_audience(&[&self.options.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let token = decode(token, key, &validation).map_err(|error| refused(&error))?;
        let claims: Map<String, Value> = token.claims;
        // The library takes a list that has the issuer.
        if !claims["iss"].is_string() {
            return Err(invalid("the token's `iss` is no text"));
        }
        Ok(claims)
    }

    /// The first plan that the claim names, else the default one.
    fn plan(
        &self,
        claims: &Map<String, Value>,
        plans: &[Arc<Entry>],
    ) -> Result<Arc<Entry>, Failure> {
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
                "the token names no plan of this server (`{claim}`), which has none called `{DEFAULT_PLAN}`"
            );
            Failure::new(Cause::Forbidden, message)
        })
    }
}

/// Whether a tenant may be called so: it is shown in the log.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_TENANT && !name.chars().any(char::is_control)
}

fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(Cause::NoKey, message).with_code("invalid_token")
}

/// Why a token does not count, without anything that is in it.
fn refused(error: &Error) -> Failure {
    invalid(match error.kind() {
        ErrorKind::ExpiredSignature => "the token has expired",
        ErrorKind::ImmatureSignature => "the token is not valid yet",
        ErrorKind::InvalidIssuer => "the token is of another issuer",
        ErrorKind::InvalidAudience => "the token is for another audience",
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => {
            "the token has no valid `exp`, `iss` or `aud`"
        }
        ErrorKind::InvalidSignature => "the signature of the token is wrong",
        _ => "the token is no JWT that is signed with a public key",
    })
}

/// Keeps the issuer's keys up to date, for as long as the keys are in use.
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
