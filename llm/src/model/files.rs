//! The files that a model was loaded from. They stay mapped while it serves, so writing to them
//! changes the running model.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::protocol::LoadError;

/// A file as it was at some moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileState {
    path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
    device: u64,
    inode: u64,
}

impl FileState {
    /// Looks at a file without opening it, which would wait for a writer where it is a pipe.
    ///
    /// # Errors
    /// [`LoadError::Read`] if it cannot be looked at, and [`LoadError::Model`] if it is no regular
    /// file.
    pub(crate) fn of(path: &Path) -> Result<Self, LoadError> {
        let metadata = fs::metadata(path).map_err(|source| LoadError::Read {
            path: path.to_owned(),
            source,
        })?;
        if !metadata.is_file() {
            let kind = metadata.file_type();
            let kind = if kind.is_dir() {
                "a folder"
            } else if kind.is_fifo() {
                "a pipe"
            } else if kind.is_socket() {
                "a socket"
            } else {
                "a device"
            };
            return Err(LoadError::Model {
                path: path.to_owned(),
                message: format!("it is {kind}, and a model is a regular file"),
            });
        }
        Ok(Self::new(path, &metadata))
    }

    fn new(path: &Path, metadata: &fs::Metadata) -> Self {
        Self {
            path: path.to_owned(),
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What has happened to the file since; `None` if nothing has.
    fn change(&self) -> Option<String> {
        let what = match fs::metadata(&self.path).map(|metadata| Self::new(&self.path, &metadata)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "was removed: the server goes on with what it had".to_owned()
            }
            Err(error) => format!("cannot be looked at any more: {error}"),
            Ok(now) if now == *self => return None,
            Ok(now) if (now.device, now.inode) != (self.device, self.inode) => {
                "was replaced by another file: the server goes on with the old one".to_owned()
            }
            Ok(now) if now.bytes < self.bytes => format!(
                "was cut from {} to {} bytes while it is in use: what the model computes is not to be trusted",
                self.bytes, now.bytes
            ),
            Ok(_) => {
                "was written to while it is in use: what the model computes is not to be trusted"
                    .to_owned()
            }
        };
        Some(format!("`{}` {what}", self.path.display()))
    }
}

/// The files of an engine, as they were when it was loaded.
#[derive(Debug, Default)]
pub struct ModelFiles {
    files: Vec<FileState>,
    /// What was found by the last look.
    change: Mutex<Option<String>>,
}

impl ModelFiles {
    /// Looks at files, and at the other parts of those that are split.
    pub(crate) fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<Self, LoadError> {
        let mut files = Vec::new();
        for path in paths {
            files.push(FileState::of(path)?);
            for part in other_parts(path) {
                // A part that is missing is the loader's business.
                files.extend(FileState::of(&part));
            }
        }
        Ok(Self {
            files,
            change: Mutex::default(),
        })
    }

    pub(crate) fn states(&self) -> &[FileState] {
        &self.files
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(FileState::bytes).sum()
    }

    /// Looks at the files again, and logs a change when it is first seen. It asks the file system,
    /// so it is not for a thread that others wait for.
    pub fn look(&self) {
        let change = self.files.iter().find_map(FileState::change);
        let mut known = self.known();
        if let Some(change) = &change
            && known.as_ref() != Some(change)
        {
            tracing::error!("the model's file {change}");
        }
        *known = change;
    }

    /// What has happened to a file since it was loaded, as of the last [`look`](Self::look).
    pub fn change(&self) -> Option<String> {
        self.known().clone()
    }

    fn known(&self) -> MutexGuard<'_, Option<String>> {
        // A panic cannot leave it half changed.
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The other parts of a model that is split into several files, by the name of one.
fn other_parts(path: &Path) -> Vec<PathBuf> {
    let mut parts = model_parts(path);
    parts.retain(|part| part != path);
    parts
}

/// Returns the files of a model in order, by the name of one: `large-00001-of-00003.gguf` has three,
/// and a model that is not split is its only file.
pub fn model_parts(path: &Path) -> Vec<PathBuf> {
    let Some((stem, _, count)) = part_of(path) else {
        return vec![path.to_owned()];
    };
    (1..=count)
        .map(|part| path.with_file_name(format!("{stem}-{part:05}-of-{count:05}.gguf")))
        .collect()
}

/// Returns true if a file is the first part of a model, by its name, or all of it.
pub fn is_first_part(path: &Path) -> bool {
    part_of(path).is_none_or(|(_, number, _)| number == 1)
}

/// The name of a part without its number, the number, and the count of parts.
fn part_of(path: &Path) -> Option<(&str, u32, u32)> {
    /// More parts than any model has.
    const MOST: u32 = 1_000;
    let name = path.file_name()?.to_str()?;
    let (stem, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, number) = stem.rsplit_once('-')?;
    let digits = |text: &str| text.parse::<u32>().ok().filter(|_| text.len() == 5);
    let (number, count) = (digits(number)?, digits(count)?.min(MOST));
    (1..=count)
        .contains(&number)
        .then_some((stem, number, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_as_one_model() {
        let folder = tempfile::tempdir().expect("a folder");
        let part = |number| folder.path().join(format!("m-{number:05}-of-00003.gguf"));
        for (number, text) in [(1, "first"), (2, "second"), (3, "third")] {
            fs::write(part(number), text).expect("written");
        }
        let files = ModelFiles::of([part(1).as_path()]).expect("three files");
        assert_eq!(files.bytes(), 16);
        fs::remove_file(part(2)).expect("removed");
        let files = ModelFiles::of([part(3).as_path()]).expect("two files");
        assert_eq!(files.bytes(), 10);
    }

    #[test]
    fn a_change_is_told_once_and_by_its_kind() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.gguf");
        fs::write(&path, "weights").expect("written");
        let files = ModelFiles::of([path.as_path()]).expect("a file");
        files.look();
        assert_eq!(files.change(), None);

        fs::write(&path, "short").expect("written");
        files.look();
        assert!(
            files
                .change()
                .expect("cut")
                .contains("was cut from 7 to 5 bytes")
        );

        let other = folder.path().join("new");
        fs::write(&other, "weights").expect("written");
        fs::rename(&other, &path).expect("renamed");
        files.look();
        assert!(files.change().expect("replaced").contains("was replaced"));

        fs::remove_file(&path).expect("removed");
        files.look();
        assert!(files.change().expect("removed").contains("was removed"));
    }

    #[test]
    fn parts_are_found_by_their_names() {
        assert_eq!(
            other_parts(Path::new("/m/a-00002-of-00003.gguf")),
            ["/m/a-00001-of-00003.gguf", "/m/a-00003-of-00003.gguf"].map(PathBuf::from)
        );
        for name in [
            "a.gguf",
            "a-2-of-3.gguf",
            "a-00001-of-x.gguf",
            "a-00001-of-00002.txt",
        ] {
            assert!(other_parts(Path::new(name)).is_empty(), "{name}");
        }
    }
}
