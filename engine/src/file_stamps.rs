//! Records of files, and checks whether the files have changed since.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// File metadata that changes with the contents. Replacing a file by renaming changes the inode;
/// writing to it changes the modification time or size.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    number: (u64, u64),
    is_folder: bool,
}

impl Stamp {
    /// Reads the stamp of a path, following links. Returns `None` if nothing is there.
    fn read(path: &Path) -> Option<Self> {
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

/// Paths with the stamps of their files; the stamp is `None` if there was no file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileStamps(BTreeMap<PathBuf, Option<Stamp>>);

impl FileStamps {
    /// Records a path, unless it is recorded already.
    pub fn look(&mut self, path: &Path) {
        if !self.0.contains_key(path) {
            self.0.insert(path.to_owned(), Stamp::read(path));
        }
    }

    /// Adds the records of `other`. Existing records win.
    pub fn extend(&mut self, other: &Self) {
        for (path, stamp) in &other.0 {
            self.0.entry(path.clone()).or_insert(*stamp);
        }
    }

    /// Returns the first path whose file has changed.
    pub fn changed(&self) -> Option<&Path> {
        let mut all = self.0.iter();
        let changed = all.find(|(path, stamp)| Stamp::read(path) != **stamp)?;
        Some(changed.0)
    }

    /// Returns `true` if all files are unchanged and all records of `elsewhere` are among them.
    /// Folders are ignored.
    pub fn is_still(&self, elsewhere: &Self) -> bool {
        let is_folder = |stamp: &Option<Stamp>| stamp.is_some_and(|stamp| stamp.is_folder);
        let mut others = elsewhere.0.iter().filter(|(_, stamp)| !is_folder(stamp));
        let mut own = self.0.iter().filter(|(_, stamp)| !is_folder(stamp));
        others.all(|(path, stamp)| self.0.get(path) == Some(stamp))
            && own.all(|(path, stamp)| Stamp::read(path) == *stamp)
    }

    /// Returns the same paths with their current stamps.
    #[must_use]
    pub fn again(&self) -> Self {
        let all = self.0.keys();
        Self(all.map(|path| (path.clone(), Stamp::read(path))).collect())
    }

    /// Returns the latest recorded modification time of a file.
    pub fn last_change(&self) -> Option<SystemTime> {
        let stamps = self.0.values().flatten().filter(|stamp| !stamp.is_folder);
        stamps.filter_map(|stamp| stamp.modified).max()
    }

    /// Iterates over the recorded paths in order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// Returns the total size in bytes of files that `other` lacks or has with another stamp.
    pub fn bytes_beyond(&self, other: &Self) -> u64 {
        let all = self.0.iter();
        let new = all.filter(|(path, stamp)| other.0.get(*path) != Some(stamp));
        let sizes = new.filter_map(|(_, stamp)| Some(stamp.as_ref()?.bytes));
        sizes.sum()
    }
}
