//! Images and sounds that are kept, by the salts of requests and the bytes of files: what two
//! requests have in common is found by comparing all of it, so that no request gets another one's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::VisionStatus;
use super::medium::Medium;
use crate::backend::Bitmap;
use crate::room::{self, Cache};

/// The images and sounds that were used last, within a number of bytes.
pub(super) struct Kept {
    limit: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    media: HashMap<Key, Entry>,
    bytes: u64,
    queries: u64,
    hits: u64,
}

/// What a file is, a salt, its length before it, and the file.
pub(super) type Key = Arc<[u8]>;

struct Entry {
    medium: Arc<Medium>,
    bytes: u64,
    /// The query that asked for it last.
    used: u64,
}

impl Kept {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            state: Mutex::default(),
        }
    }

    /// What the image of a file is kept by.
    pub(super) fn key(salt: &str, file: &[u8]) -> Key {
        Self::key_as(b'i', salt, file)
    }

    /// What the sound of a file is kept by.
    pub(super) fn key_of_sound(salt: &str, file: &[u8]) -> Key {
        Self::key_as(b's', salt, file)
    }

    fn key_as(kind: u8, salt: &str, file: &[u8]) -> Key {
        let length = (salt.len() as u64).to_le_bytes();
        [&[kind][..], &length, salt.as_bytes(), file]
            .concat()
            .into()
    }

    /// What the image of some pixels is kept by: their file in the format PPM.
    pub(super) fn key_of(salt: &str, bitmap: &Bitmap) -> Key {
        let head = format!("P6 {} {} 255\n", bitmap.width(), bitmap.height());
        Self::key(salt, &[head.as_bytes(), bitmap.rgb()].concat())
    }

    /// What is kept of a file.
    pub(super) fn find(&self, file: &Key) -> Option<Arc<Medium>> {
        let mut state = self.lock();
        state.queries += 1;
        let used = state.queries;
        let entry = state.media.get_mut(file)?;
        entry.used = used;
        let medium = Arc::clone(&entry.medium);
        state.hits += 1;
        Some(medium)
    }

    /// Keeps what takes so many bytes beside its file. Returns it, or what somebody else
    /// has made of the same file meanwhile.
    pub(super) fn insert(&self, file: Key, medium: Arc<Medium>, bytes: u64) -> Arc<Medium> {
        let bytes = bytes + file.len() as u64;
        if bytes > self.limit || !room::is_ample(bytes) {
            return medium;
        }
        let mut state = self.lock();
        if let Some(entry) = state.media.get(&file) {
            return Arc::clone(&entry.medium);
        }
        state.evict_to(self.limit - bytes);
        let entry = Entry {
            medium: Arc::clone(&medium),
            bytes,
            used: state.queries,
        };
        state.media.insert(file, entry);
        state.bytes += bytes;
        medium
    }

    pub(super) fn status(&self) -> VisionStatus {
        let state = self.lock();
        VisionStatus {
            queries: state.queries,
            hits: state.hits,
            encoded: 0,
            kept: state.media.len() as u64,
            kept_bytes: state.bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change leaves the counts right, whatever panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache for Kept {
    fn shrink(&self) {
        self.lock().evict_to(0);
    }
}

impl State {
    /// Drops what was not used for longest until the rest takes no more than this.
    fn evict_to(&mut self, limit: u64) {
        while self.bytes > limit {
            let oldest = self.media.iter().min_by_key(|(_, entry)| entry.used);
            let Some(file) = oldest.map(|(file, _)| Arc::clone(file)) else {
                return;
            };
            let dropped = self.media.remove(&file);
            self.bytes -= dropped.map_or(0, |entry| entry.bytes);
        }
    }
}
