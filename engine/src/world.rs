//! What a plan may touch while it is compiled: files, seen through one trait, so that a test or an editor can stand in.

use std::{
    io,
    path::{Path, PathBuf},
};

/// The files a graph may refer to.
pub trait World: Send + Sync {
    /// Where a path that a graph file mentions really is; relative ones start at the graph's folder.
    fn resolve(&self, path: &Path) -> PathBuf;

    /// Reads a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
}

/// The file system, seen from one folder.
#[derive(Clone, Debug)]
pub struct Files {
    base: PathBuf,
}

impl Files {
    /// Relative paths start at `base`.
    pub fn new(base: impl Into<PathBuf>) -> Self {
        Self { base: base.into() }
    }
}

impl Default for Files {
    fn default() -> Self {
        Self::new(".")
    }
}

impl World for Files {
    fn resolve(&self, path: &Path) -> PathBuf {
        let joined = self.base.join(path);
        std::path::absolute(&joined)
            .map(|absolute| absolute.components().collect())
            .unwrap_or(joined)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(self.resolve(path))
    }
}
