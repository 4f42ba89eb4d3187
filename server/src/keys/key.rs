//! A key: its digest, its permissions, and the usage of its limits.

use std::{
    fmt,
    num::{NonZero, NonZeroU32},
    sync::Arc,
};

use ring::digest;
use subtle::ConstantTimeEq as _;

use super::usage::Usage;

/// SHA-256 digest of a key.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Computes the digest of a key.
    pub fn new(key: &[u8]) -> Self {
        let digest = digest::digest(&digest::SHA256, key);
        Self(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// Parses 64 hexadecimal digits; `None` for anything else.
    pub(super) fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).ok()?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Compares in constant time, so that timing reveals nothing.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(..)")
    }
}

/// The permissions of a key.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Requests to graphs, as far as `models` allows.
    Infer,
    /// Changes of the server; includes the reading that `Metrics` allows.
    Admin,
    /// Reading metrics, status and configuration.
    Metrics,
}

/// Scopes with their names in the key file.
pub(super) const SCOPES: [(&str, Scope); 3] = [
    ("infer", Scope::Infer),
    ("admin", Scope::Admin),
    ("metrics", Scope::Metrics),
];

/// The settings of a key, or of a plan, in the key file.
#[derive(Clone, Debug)]
pub(super) struct KeyEntry {
    /// Name of the key in metrics and the log.
    pub(super) name: Arc<str>,
    /// Digest; `None` for a plan.
    pub(super) digest: Option<Digest>,
    /// Patterns of names that requests may use as `model`.
    pub(super) models: Vec<String>,
    pub(super) scopes: Vec<Scope>,
    pub(super) max_priority: Option<i32>,
    pub(super) requests_per_minute: Option<NonZeroU32>,
    pub(super) tokens_per_minute: Option<NonZeroU32>,
    pub(super) max_concurrent_sequences: Option<NonZeroU32>,
    pub(super) max_queued_requests: Option<NonZeroU32>,
    pub(super) max_queued_prompt_tokens: Option<NonZeroU32>,
    /// Salt of the prefix cache, which is shared only among requests of the same salt. Empty in a
    /// plan whose tenants share nothing.
    pub(super) salt: Arc<str>,
    /// Weight in sharing the server with other keys.
    pub(super) weight: NonZeroU32,
}

impl KeyEntry {
    /// Creates the only key of a server, with all permissions and without limits.
    pub(super) fn with_all_permissions(digest: Digest) -> Self {
        let name: Arc<str> = "default".into();
        Self {
            digest: Some(digest),
            scopes: SCOPES.map(|(_, scope)| scope).to_vec(),
            salt: own_salt(&name),
            ..Self::plan(name)
        }
    }

    /// Creates a plan for requests to all graphs, without limits.
    pub(super) fn plan(name: Arc<str>) -> Self {
        Self {
            name,
            digest: None,
            models: vec!["*".to_owned()],
            scopes: vec![Scope::Infer],
            max_priority: None,
            requests_per_minute: None,
            tokens_per_minute: None,
            max_concurrent_sequences: None,
            max_queued_requests: None,
            max_queued_prompt_tokens: None,
            salt: "".into(),
            weight: NonZero::<u32>::MIN,
        }
    }

    /// Returns true if the key allows requests to graphs.
    pub(super) fn infers(&self) -> bool {
        self.scopes.contains(&Scope::Infer)
    }

    /// Returns true if the key allows operators to read.
    pub(super) fn watches(&self) -> bool {
        self.scopes.contains(&Scope::Metrics) || self.administers()
    }

    /// Returns true if the key allows changes of the server.
    pub(super) fn administers(&self) -> bool {
        self.scopes.contains(&Scope::Admin)
    }

    /// Returns true if requests may name this model.
    pub(super) fn may_use(&self, model: &str) -> bool {
        self.models.iter().any(|pattern| matches(pattern, model))
    }
}

/// Returns the salt of a key that shares nothing with others.
pub(super) fn own_salt(name: &str) -> Arc<str> {
    format!("key:{name}").into()
}

/// Returns the salt of all keys with this `cache_salt`.
pub(super) fn named_salt(salt: &str) -> Arc<str> {
    format!("salt:{salt}").into()
}

/// Returns true if a text matches a pattern, in which `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else {
            return false;
        };
        text = &text[at + part.len()..];
    }
    text.ends_with(end)
}

/// A key with the usage of its limits.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) entry: KeyEntry,
    /// Label in metrics. All tenants of a plan share one, so that the number of labels is bounded.
    pub(super) label: Arc<str>,
    pub(super) usage: Usage,
}

impl Key {
    /// Creates a key. `before` is its usage until now.
    pub(super) fn new(entry: KeyEntry, before: Option<&Usage>) -> Self {
        Self {
            usage: Usage::new(&entry, before),
            label: Arc::clone(&entry.name),
            entry,
        }
    }

    /// Creates the key of a tenant with a plan. `before` is its usage until now.
    pub(super) fn for_tenant(name: &str, plan: &KeyEntry, before: Option<&Usage>) -> Self {
        // Names in a key file cannot contain a colon.
        let name: Arc<str> = format!("jwt:{name}").into();
        let salt = match &*plan.salt {
            "" => own_salt(&name),
            _ => Arc::clone(&plan.salt),
        };
        let entry = KeyEntry {
            name,
            salt,
            ..plan.clone()
        };
        Self {
            label: format!("plan:{}", plan.name).into(),
            ..Self::new(entry, before)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text, is) in [
            ("*", "", true),
            ("*", "any/thing:at-all", true),
            ("chat", "chat", true),
            ("chat", "chat:legal", false),
            ("chat:*", "chat:legal", true),
            ("chat:*", "chat", false),
            ("*/small", "team/small", true),
            ("*/small", "team/smaller", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text), is, "{pattern} {text}");
        }
    }

    #[test]
    fn a_digest_is_written_as_it_is_read() {
        let digest = Digest::new(b"abc");
        let text = digest.to_string();
        assert_eq!(
            text,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert!(Digest::from_hex(&text.to_uppercase()).is_some_and(|read| read.is(&digest)));
        for wrong in ["", "ba78", &text[1..], &format!("+{}", &text[1..])] {
            assert!(Digest::from_hex(wrong).is_none(), "{wrong}");
        }
        assert!(!format!("{digest:?}").contains("ba78"));
    }
}
