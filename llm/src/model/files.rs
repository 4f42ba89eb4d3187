//! The files that a model was loaded from. They stay mapped while it serves, so writing to them
//! changes the running model.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use crate::lock::lock;
use crate::protocol::LoadError;

/// State of a file at some moment, to detect later changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileState {
    path: PathBuf,
    pub(crate) bytes: u64,
    modified: Option<SystemTime>,
    device: u64,
    inode: u64,
}

impl FileState {
    /// Reads the state of a file without opening it: opening a pipe would wait for a writer.
    ///
    /// # Errors
    /// [`LoadError::Read`] if the file cannot be examined, and [`LoadError::Model`] if it is not a
    /// regular file.
    pub(crate) fn read(path: &Path) -> Result<Self, LoadError> {
        let metadata = fs::metadata(path).map_err(|source| LoadError::read(path, source))?;
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
            let message = format!("it is {kind}, expected a regular file");
            return Err(LoadError::model(path, message));
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

    /// Describes the change of the file since then; `None` if it is unchanged.
    fn change(&self) -> Option<String> {
        let what = match fs::metadata(&self.path).map(|metadata| Self::new(&self.path, &metadata)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "was removed: the server continues with the loaded model".to_owned()
            }
            Err(error) => format!("cannot be examined any more: {error}"),
            Ok(now) if now == *self => return None,
            Ok(now) if (now.device, now.inode) != (self.device, self.inode) => {
                "was replaced by another file: the server continues with the old one".to_owned()
            }
            Ok(now) if now.bytes < self.bytes => format!(
                "was truncated from {} to {} bytes while it is in use: results of the model cannot be trusted",
                self.bytes, now.bytes
            ),
            Ok(_) => {
                "was modified while it is in use: results of the model cannot be trusted any more"
                    .to_owned()
            }
        };
        Some(format!("`{}` {what}", self.path.display()))
    }
}

/// The files of an engine, with their states when it was loaded.
#[derive(Debug, Default)]
pub struct ModelFiles {
    pub(crate) files: Vec<FileState>,
    /// The change found by the last look.
    change: Mutex<Option<String>>,
}

impl ModelFiles {
    /// Reads the states of files, and of the other parts of split models.
    pub(crate) fn read<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<Self, LoadError> {
        let mut files = Vec::new();
        for path in paths {
            files.push(FileState::read(path)?);
            for part in model_parts(path).iter().filter(|part| *part != path) {
                // The loader reports missing parts.
                files.extend(FileState::read(part));
            }
        }
        Ok(Self {
            files,
            change: Mutex::default(),
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Checks the files again, and logs a change when it is first seen. It accesses the file
    /// system, so it must not run on a thread that others wait for.
    pub fn look(&self) {
        let change = self.files.iter().find_map(FileState::change);
        let mut known = lock(&self.change);
        if let Some(change) = &change
            && known.as_ref() != Some(change)
        {
            tracing::error!("the model's file {change}");
        }
        *known = change;
    }

    /// Refuses files that changed since their states were read: another file may have been loaded
    /// than the one that was checked and tried.
    ///
    /// # Errors
    /// [`LoadError::Model`] with the first of them.
    pub(crate) fn check_unchanged(&self) -> Result<(), LoadError> {
        match self.files.iter().find(|file| file.change().is_some()) {
            Some(file) => Err(LoadError::model(
                &file.path,
                "it changed while it was loaded; load it again",
            )),
            None => Ok(()),
        }
    }

    /// The change of a file since it was loaded, as of the last [`look`](Self::look).
    pub fn change(&self) -> Option<String> {
        lock(&self.change).clone()
    }
}

/// Returns the files of a model in order, from the name of one: `large-00001-of-00003.gguf` has
/// three. A model that is not split has one.
pub fn model_parts(path: &Path) -> Vec<PathBuf> {
    let Some((stem, _, count)) = part_of(path) else {
        return vec![path.to_owned()];
    };
    (1..=count)
        .map(|part| path.with_file_name(format!("{stem}-{part:05}-of-{count:05}.gguf")))
        .collect()
}

/// Returns true if a file's name is that of the first part of a model, or of a whole model.
pub fn is_first_part(path: &Path) -> bool {
    part_of(path).is_none_or(|(_, number, _)| number == 1)
}

/// Splits a part's name into the name without its number, the number, and the count of parts.
pub(crate) fn part_of(path: &Path) -> Option<(&str, u32, u32)> {
    /// Maximum number of parts; no model has more.
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

    fn other_parts(path: &Path) -> Vec<PathBuf> {
        let parts = model_parts(path).into_iter();
        parts.filter(|part| part != path).collect()
    }

    #[test]
    fn parts_count_as_one_model() {
        let folder = tempfile::tempdir().expect("a folder");
        let part = |number| folder.path().join(format!("m-{number:05}-of-00003.gguf"));
        for (number, text) in [(1, "first"), (2, "second"), (3, "third")] {
            fs::write(part(number), text).expect("written");
        }
        let files = ModelFiles::read([part(1).as_path()]).expect("three files");
        assert_eq!(files.bytes(), 16);
        fs::remove_file(part(2)).expect("removed");
        let files = ModelFiles::read([part(3).as_path()]).expect("two files");
        assert_eq!(files.bytes(), 10);
    }

    #[test]
    fn a_change_is_told_once_and_by_its_kind() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.gguf");
        fs::write(&path, "weights").expect("written");
        let files = ModelFiles::read([path.as_path()]).expect("a file");
        files.look();
        assert_eq!(files.change(), None);
        files.check_unchanged().expect("unchanged");

        fs::write(&path, "short").expect("written");
        files.look();
        assert!(
            files
                .change()
                .expect("cut")
                .contains("was truncated from 7 to 5 bytes")
        );

        let other = folder.path().join("new");
        fs::write(&other, "weights").expect("written");
        fs::rename(&other, &path).expect("renamed");
        files.look();
        assert!(files.change().expect("replaced").contains("was replaced"));
        let refused = files.check_unchanged().expect_err("replaced").to_string();
        assert!(refused.ends_with("it changed while it was loaded; load it again"));

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
