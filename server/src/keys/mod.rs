//! The keys of a server: their permissions and limits.
//!
//! `file` reads the key file, `usage` counts what a key has used of its limits, `gate` checks the
//! key of each request, and `caller` is the key of one request. `jwt` accepts tokens in place of
//! keys. No key is stored or shown: only SHA-256 digests are compared.

mod bucket;
mod caller;
mod entry;
mod file;
mod gate;
mod jwt;
mod key;
mod usage;

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
};

use arc_swap::ArcSwap;
use graphmill_engine::FileStamps;

pub(crate) use caller::{Caller, KeyName, Settlement};
pub(crate) use entry::check_name;
pub(crate) use gate::{Gate, Permission, has_key, layer};
use jwt::Tokens;
pub(crate) use jwt::watch as watch_issuer;
pub use jwt::{JwksSource, JwtOptions};
pub use key::Digest;
use key::{Key, KeyEntry};

use crate::{
    errors::{Cause, Failure},
    file_watch,
};

/// The source of a server's keys.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// Key file, read again when it changes.
    File(PathBuf),
    /// A single key with all permissions.
    One(Digest),
}

/// The error that keys cannot be used. It has one or more lines, each with the place in the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyError(String);

/// The keys that are valid now, and their sources.
pub(crate) struct Keys {
    /// Source of keys; `None` if only tokens are accepted.
    source: Option<KeySource>,
    tokens: Option<Arc<Tokens>>,
    /// State of the file before it was first read.
    opened: FileStamps,
    now: ArcSwap<Ring>,
}

/// All keys at one time.
struct Ring {
    keys: Vec<Arc<Key>>,
    /// Plans for tokens, by which tenants get their limits.
    plans: Vec<Arc<KeyEntry>>,
    /// True if requests of several keys can compete.
    is_shared: bool,
}

impl Ring {
    fn read(
        source: Option<&KeySource>,
        old: &[Arc<Key>],
        has_tokens: bool,
    ) -> Result<Self, KeyError> {
        let (entries, mut plans) = match source {
            Some(KeySource::File(path)) => file::read(path)?,
            Some(KeySource::One(digest)) => {
                (vec![KeyEntry::with_all_permissions(*digest)], Vec::new())
            }
            None => Default::default(),
        };
        if has_tokens && plans.is_empty() {
            plans.push(KeyEntry::plan(jwt::DEFAULT_PLAN.into()));
        }
        let with_usage = |entry: KeyEntry| {
            let before = old.iter().find(|old| old.entry.name == entry.name);
            Arc::new(Key::new(entry, before.map(|key| &key.usage)))
        };
        let keys: Vec<Arc<Key>> = entries.into_iter().map(with_usage).collect();
        let inferring = keys.iter().filter(|key| key.entry.infers()).count();
        Ok(Self {
            is_shared: has_tokens || inferring > 1,
            keys,
            plans: plans.into_iter().map(Arc::new).collect(),
        })
    }
}

impl Keys {
    /// Reads the keys, and the keys of the token issuer.
    pub(crate) fn open(
        source: Option<KeySource>,
        jwt: Option<JwtOptions>,
    ) -> Result<Self, KeyError> {
        let opened = file_watch::look_at(match &source {
            Some(KeySource::File(path)) => Some(path.as_path()),
            Some(KeySource::One(_)) | None => None,
        });
        let ring = Ring::read(source.as_ref(), &[], jwt.is_some())?;
        if let Some(KeySource::File(path)) = &source {
            let (count, path) = (ring.keys.len(), path.display());
            tracing::info!("requests need one of the {count} keys in `{path}`");
            if jwt.is_none() && !ring.plans.is_empty() {
                tracing::warn!("the plans in `{path}` have no effect: no tokens are accepted");
            }
        }
        Ok(Self {
            source,
            tokens: jwt.map(Tokens::open).transpose()?.map(Arc::new),
            opened,
            now: ArcSwap::from_pointee(ring),
        })
    }

    /// Reads the keys again and returns their number. Keys that stay keep the usage of their
    /// limits. An error changes nothing.
    pub(crate) fn reload(&self) -> Result<usize, KeyError> {
        let has_tokens = self.tokens.is_some();
        let ring = Ring::read(self.source.as_ref(), &self.now.load().keys, has_tokens)?;
        let count = ring.keys.len();
        self.now.store(Arc::new(ring));
        Ok(count)
    }

    fn reload_and_say(&self) {
        match self.reload() {
            Ok(count) => tracing::info!("read the key file again: {count} keys"),
            Err(error) => tracing::error!("the keys were not updated: {error}"),
        }
    }

    /// Returns the key that a client sent, and true if other keys compete with it. All keys are
    /// compared, each in constant time. A credential that matches none may be a token.
    fn find(&self, presented: &[u8]) -> Result<(Arc<Key>, bool), Failure> {
        let digest = Digest::new(presented);
        let ring = self.now.load();
        let mut found = None;
        for key in &ring.keys {
            if key.entry.digest.is_some_and(|own| own.is(&digest)) {
                found = Some(Arc::clone(key));
            }
        }
        let key = match (found, &self.tokens) {
            (Some(key), _) => key,
            (None, Some(tokens)) if Tokens::is_one(presented) => {
                tokens.find(presented, &ring.plans)?
            }
            (None, _) => return Err(Failure::new(Cause::NoKey, "the key is not valid")),
        };
        Ok((key, ring.is_shared))
    }
}

/// Reads the key file again when it changes, as long as the keys are in use.
pub(crate) async fn watch(keys: Weak<Keys>) {
    let Some(opened) = keys.upgrade().map(|keys| keys.opened.clone()) else {
        return;
    };
    let reload = move || keys.upgrade().map(|keys| keys.reload_and_say()).is_some();
    file_watch::follow(opened, reload).await;
}
