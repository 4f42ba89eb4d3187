//! Progress of models that are being loaded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::lock::lock;

/// Stage of a model's load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadStage {
    /// The file is read and tried in a separate process.
    Checking,
    /// The weights are being read; holds the part that is done, from 0 to 1.
    Weights(f32),
    /// Contexts, caches and masks are being created.
    Preparing,
}

impl LoadStage {
    /// Returns the name of the stage in the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Checking => "checking",
            Self::Weights(_) => "weights",
            Self::Preparing => "preparing",
        }
    }
}

/// The models that are being loaded, one entry for each concurrent load.
static LOADING: Mutex<BTreeMap<PathBuf, LoadStage>> = Mutex::new(BTreeMap::new());

/// Returns the models that are being loaded now.
pub fn loading() -> Vec<(PathBuf, LoadStage)> {
    let all = lock(&LOADING);
    all.iter()
        .map(|(path, stage)| (path.clone(), *stage))
        .collect()
}

/// Shows a load in the status until it is dropped.
pub(crate) struct LoadGuard(PathBuf);

impl LoadGuard {
    /// Starts to show the load of the model at `path`.
    pub(crate) fn new(path: &Path) -> Self {
        lock(&LOADING).insert(path.to_owned(), LoadStage::Checking);
        Self(path.to_owned())
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        lock(&LOADING).remove(&self.0);
    }
}

/// Sets the stage of the load of the model at `path`. Loads that are not shown are ignored.
#[cfg(feature = "llama")]
pub(crate) fn reached(path: &Path, stage: LoadStage) {
    if let Some(now) = lock(&LOADING).get_mut(path) {
        *now = stage;
    }
}
