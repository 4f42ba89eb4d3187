//! Who may do what, and how much of it: the keys of a server.
//!
//! A key file is read by `file`; what a key has left of its limits is its `usage`; the `gate`
//! asks each request for its key, and `caller` is that key for the time of one request. Nothing
//! here keeps or shows a key: only its SHA-256 is compared.

mod bucket;
mod caller;
mod file;
mod gate;
mod key;
mod usage;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Weak},
};

use arc_swap::ArcSwap;

pub(crate) use caller::{Caller, Label, Settlement};
pub(crate) use gate::{Gate, Need, has_key, layer};
pub use key::Digest;
use key::Key;

use crate::changes::Changes;

/// Where the keys of a server come from.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// A key file, which is read again when it changes.
    File(PathBuf),
    /// One key that may do everything.
    One(Digest),
}

/// Why keys cannot be used: one line or several, each with its place in the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyError(String);

/// The keys that are valid now.
pub(crate) struct Keys {
    source: KeySource,
    /// The file as it was before it was first read.
    opened: Changes,
    now: ArcSwap<Ring>,
}

/// All keys at one time.
struct Ring {
    keys: Vec<Arc<Key>>,
    /// Whether requests of several keys can compete.
    is_shared: bool,
}

impl Ring {
    fn new(keys: Vec<Arc<Key>>) -> Self {
        let is_shared = keys.iter().filter(|key| key.entry.infers()).count() > 1;
        Self { keys, is_shared }
    }
}

impl Keys {
    /// Reads the keys.
    pub(crate) fn open(source: KeySource) -> Result<Self, KeyError> {
        let opened = Changes::of(match &source {
            KeySource::File(path) => vec![path.clone()],
            KeySource::One(_) => Vec::new(),
        });
        let keys = read(&source, &[])?;
        if let KeySource::File(path) = &source {
            let (count, path) = (keys.len(), path.display());
            tracing::info!("requests need a key: there are {count} in `{path}`");
        }
        Ok(Self {
            source,
            opened,
            now: ArcSwap::from_pointee(Ring::new(keys)),
        })
    }

    /// Reads the keys again. Those that stay keep what they have left of their limits. An error
    /// changes nothing. Says how many there are.
    pub(crate) fn reload(&self) -> Result<usize, KeyError> {
        let keys = read(&self.source, &self.now.load().keys)?;
        let count = keys.len();
        self.now.store(Arc::new(Ring::new(keys)));
        Ok(count)
    }

    fn reload_and_say(&self) {
        match self.reload() {
            Ok(count) => tracing::info!("the key file was read again: {count} keys"),
            Err(error) => tracing::error!("the keys stay as they were: {error}"),
        }
    }

    /// The key that a client presented, and whether others compete with it. Every key is compared,
    /// each in constant time.
    fn find(&self, presented: &[u8]) -> Option<(Arc<Key>, bool)> {
        let digest = Digest::of(presented);
        let ring = self.now.load();
        let mut found = None;
        for key in &ring.keys {
            if key.entry.digest.is(&digest) {
                found = Some(Arc::clone(key));
            }
        }
        found.map(|key| (key, ring.is_shared))
    }
}

/// Reads the key file again when it changes, for as long as somebody asks for keys.
pub(crate) async fn watch(keys: Weak<Keys>) {
    let Some(opened) = keys.upgrade().map(|keys| keys.opened.clone()) else {
        return;
    };
    let reload = move || keys.upgrade().map(|keys| keys.reload_and_say()).is_some();
    opened.follow(reload).await;
}

fn read(source: &KeySource, old: &[Arc<Key>]) -> Result<Vec<Arc<Key>>, KeyError> {
    let entries = match source {
        KeySource::File(path) => file::read(path)?,
        KeySource::One(digest) => vec![key::Entry::of_everything(*digest)],
    };
    let with_usage = |entry: key::Entry| {
        let before = old.iter().find(|old| old.entry.name == entry.name);
        Arc::new(Key::new(entry, before.map(|key| &key.usage)))
    };
    Ok(entries.into_iter().map(with_usage).collect())
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}
