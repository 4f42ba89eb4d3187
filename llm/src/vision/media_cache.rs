//! Cache of images and sounds, by salt and file content. The whole content is compared, so no
//! request gets the image of another one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::VisionStatus;
use super::medium::Medium;
use crate::backend::Bitmap;
use crate::lock::lock;
use crate::memory_budget::{self, Cache};

/// The most recently used images and sounds, within a limit in bytes.
pub(super) struct MediaCache {
    limit: u64,
    state: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    media: HashMap<Key, CachedMedium>,
    /// Counts of media; those of tiles and entries are added when the status is asked for.
    status: VisionStatus,
}

/// Key of an entry: the kind of file, the length of the salt, the salt, and the file.
pub(super) type Key = Arc<[u8]>;

/// The kinds of files in keys.
pub(super) const IMAGE: u8 = b'i';
pub(super) const SOUND: u8 = b's';

struct CachedMedium {
    medium: Arc<Medium>,
    bytes: u64,
    /// Number of the query that used it last.
    used: u64,
}

impl MediaCache {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            state: Mutex::default(),
        }
    }

    /// Key of a file; its kind is [`IMAGE`] or [`SOUND`].
    pub(super) fn key(kind: u8, salt: &str, file: &[u8]) -> Key {
        let length = (salt.len() as u64).to_le_bytes();
        [&[kind][..], &length, salt.as_bytes(), file]
            .concat()
            .into()
    }

    /// Key of an image given as pixels: that of a file in the format PPM.
    pub(super) fn key_of(salt: &str, bitmap: &Bitmap) -> Key {
        let head = format!("P6 {} {} 255\n", bitmap.width(), bitmap.height());
        Self::key(IMAGE, salt, &[head.as_bytes(), bitmap.rgb()].concat())
    }

    /// Looks up a file, and counts the query.
    pub(super) fn find(&self, file: &Key) -> Option<Arc<Medium>> {
        let mut state = lock(&self.state);
        state.status.queries += 1;
        let used = state.status.queries;
        let entry = state.media.get_mut(file)?;
        entry.used = used;
        let medium = Arc::clone(&entry.medium);
        state.status.hits += 1;
        Some(medium)
    }

    /// Adds a medium that takes `bytes` besides its file. Returns it, or the equal one that another
    /// request has added meanwhile.
    pub(super) fn insert(&self, file: Key, medium: Arc<Medium>, bytes: u64) -> Arc<Medium> {
        let bytes = bytes + file.len() as u64;
        if bytes > self.limit || !memory_budget::is_ample(bytes) {
            return medium;
        }
        let mut state = lock(&self.state);
        if let Some(entry) = state.media.get(&file) {
            return Arc::clone(&entry.medium);
        }
        state.evict_to(self.limit - bytes);
        let entry = CachedMedium {
            medium: Arc::clone(&medium),
            bytes,
            used: state.status.queries,
        };
        state.media.insert(file, entry);
        state.status.kept_bytes += bytes;
        medium
    }

    pub(super) fn status(&self) -> VisionStatus {
        let state = lock(&self.state);
        VisionStatus {
            kept: state.media.len() as u64,
            ..state.status
        }
    }
}

impl Cache for MediaCache {
    fn shrink(&self) {
        lock(&self.state).evict_to(0);
    }
}

impl CacheState {
    /// Drops the least recently used entries until the rest takes at most `limit` bytes.
    fn evict_to(&mut self, limit: u64) {
        while self.status.kept_bytes > limit {
            let oldest = self.media.iter().min_by_key(|(_, entry)| entry.used);
            let Some(file) = oldest.map(|(file, _)| Arc::clone(file)) else {
                return;
            };
            let dropped = self.media.remove(&file);
            self.status.kept_bytes -= dropped.map_or(0, |entry| entry.bytes);
        }
    }
}
