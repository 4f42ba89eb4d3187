//! Progress of models that are being loaded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is being done to a model that is being loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadStage {
    /// Its file is read and tried in a process of its own.
    Checking,
    /// Its weights are read, so much of them: 0 to 1.
    Weights(f32),
    /// What computes it is made: contexts, caches, masks.
    Preparing,
}

impl LoadStage {
    /// Its name in the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Checking => "checking",
            Self::Weights(_) => "weights",
            Self::Preparing => "preparing",
        }
    }
}

/// The models that are being loaded. As many as there are loads at the same time.
static LOADING: Mutex<BTreeMap<PathBuf, LoadStage>> = Mutex::new(BTreeMap::new());

/// The models that are being loaded now.
pub fn loading() -> Vec<(PathBuf, LoadStage)> {
    let all = all();
    all.iter()
        .map(|(path, stage)| (path.clone(), *stage))
        .collect()
}

/// It is plain data, which a panic cannot leave half changed.
fn all() -> MutexGuard<'static, BTreeMap<PathBuf, LoadStage>> {
    LOADING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A load that is told of until this is dropped.
pub(crate) struct Told(PathBuf);

impl Told {
    /// Of the model at `path`.
    pub(crate) fn of(path: &Path) -> Self {
        all().insert(path.to_owned(), LoadStage::Checking);
        Self(path.to_owned())
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        all().remove(&self.0);
    }
}

/// The load of the model at `path` is in this stage now. Loads that nobody tells of are left out.
#[cfg(feature = "llama")]
pub(crate) fn reached(path: &Path, stage: LoadStage) {
    if let Some(now) = all().get_mut(path) {
        *now = stage;
    }
}
