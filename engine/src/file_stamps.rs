//! Files that were looked at, and whether they are still the same.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// What tells a file from another one under the same path, without its contents: a file that was
/// replaced by renaming has another number, one that was written over another time or size.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    number: (u64, u64),
    is_folder: bool,
}

impl Stamp {
    /// Of what is at a path now, links followed; none if there is nothing.
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        #[cfg(unix)]
        let number = {
            use std::os::unix::fs::MetadataExt as _;
            (metadata.dev(), metadata.ino())
        };
        #[cfg(not(unix))]
        let number = (0, 0);
        Some(Self {
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            number,
            is_folder: metadata.is_dir(),
        })
    }
}

/// Paths with what was there when they were looked at, which can be nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileStamps(BTreeMap<PathBuf, Option<Stamp>>);

impl FileStamps {
    /// Looks at a path, unless that was done before.
    pub fn look(&mut self, path: &Path) {
        if !self.0.contains_key(path) {
            self.0.insert(path.to_owned(), Stamp::of(path));
        }
    }

    /// Adds what was looked at elsewhere; what was seen here before stays.
    pub fn extend(&mut self, other: &Self) {
        for (path, stamp) in &other.0 {
            self.0.entry(path.clone()).or_insert(*stamp);
        }
    }

    /// The first path at which there is something else by now.
    pub fn changed(&self) -> Option<&Path> {
        let mut all = self.0.iter();
        let changed = all.find(|(path, stamp)| Stamp::of(path) != **stamp)?;
        Some(changed.0)
    }

    /// Whether all of these files are still the same, and those that were looked at elsewhere are
    /// among them. What has come into a folder or left it does not count.
    pub fn is_still(&self, elsewhere: &Self) -> bool {
        let is_folder = |stamp: &Option<Stamp>| stamp.is_some_and(|stamp| stamp.is_folder);
        let mut others = elsewhere.0.iter().filter(|(_, stamp)| !is_folder(stamp));
        let mut own = self.0.iter().filter(|(_, stamp)| !is_folder(stamp));
        others.all(|(path, stamp)| self.0.get(path) == Some(stamp))
            && own.all(|(path, stamp)| Stamp::of(path) == *stamp)
    }

    /// The same paths with what is there now.
    #[must_use]
    pub fn again(&self) -> Self {
        let all = self.0.keys();
        Self(all.map(|path| (path.clone(), Stamp::of(path))).collect())
    }

    /// When a file of these was last changed, as they were.
    pub fn last_change(&self) -> Option<SystemTime> {
        let stamps = self.0.values().flatten().filter(|stamp| !stamp.is_folder);
        stamps.filter_map(|stamp| stamp.modified).max()
    }

    /// The paths.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// Bytes of the files that `other` has not, or has otherwise.
    pub fn bytes_beyond(&self, other: &Self) -> u64 {
        let new = self
            .0
            .iter()
            .filter(|(path, stamp)| other.0.get(*path) != Some(stamp));
        new.filter_map(|(_, stamp)| Some(stamp.as_ref()?.bytes))
            .sum()
    }
}
