//! Files that compilation reads, behind a trait so that tests and editors can supply their own.

use std::{
    io::{self, Read as _},
    ops::Deref,
    path::{Path, PathBuf},
    sync::Mutex,
};

use crate::{file_stamps::FileStamps, lock::lock};

/// Files that a graph can refer to.
pub trait FileSource: Send + Sync {
    /// Resolves a path of a graph file. Relative paths start at the graph's folder.
    fn resolve(&self, path: &Path) -> PathBuf;

    /// Reads a file completely into memory.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Checks that a file can be read, if possible without reading it.
    fn find(&self, path: &Path) -> io::Result<()> {
        self.read(path).map(drop)
    }

    /// Records files that were looked at earlier and whose results are used again here.
    fn also_seen(&self, _seen: &FileStamps) {}
}

impl<P> FileSource for P
where
    P: Deref<Target: FileSource> + Send + Sync,
{
    fn resolve(&self, path: &Path) -> PathBuf {
        (**self).resolve(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        (**self).read(path)
    }

    fn find(&self, path: &Path) -> io::Result<()> {
        (**self).find(path)
    }

    fn also_seen(&self, seen: &FileStamps) {
        (**self).also_seen(seen);
    }
}

/// Maximum size of a graph or configuration.
const MAX_READ_BYTES: u64 = 64 << 20;

/// Maximum size of a model that is read as a whole. ONNX files cannot be larger.
const MAX_MODEL_BYTES: u64 = 2 << 30;

/// Reads a regular file of at most 64 MiB. Devices and pipes are refused: a configuration could
/// name any, and they may never end.
///
/// # Errors
/// Errors of the file system, and an error if the file is too large.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, MAX_READ_BYTES)
}

/// Reads a regular file of at most `most` bytes, like [`read_regular`].
///
/// # Errors
/// Errors of the file system, and an error if the file is too large.
pub fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let too_large = || {
        let message = format!("it has more than {} MiB", most >> 20);
        io::Error::new(io::ErrorKind::FileTooLarge, message)
    };
    if check_regular(path)? > most {
        return Err(too_large());
    }
    let mut contents = Vec::new();
    // Limited again here: the file may grow after the check.
    let mut file = std::fs::File::open(path)?.take(most + 1);
    if file.read_to_end(&mut contents)? as u64 > most {
        return Err(too_large());
    }
    Ok(contents)
}

/// Reads a regular text file of at most 64 MiB.
///
/// # Errors
/// Errors of the file system, and an error if the file is not UTF-8 text.
pub fn read_text(path: &Path) -> io::Result<String> {
    let text = String::from_utf8(read_regular(path)?);
    text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Checks the type of a file before it is opened: opening a pipe would block. Returns its size.
fn check_regular(path: &Path) -> io::Result<u64> {
    let found = std::fs::metadata(path)?;
    if found.is_file() {
        return Ok(found.len());
    }
    if found.is_dir() {
        return Ok(0); // reading a folder fails with its own error
    }
    Err(io::Error::other("is neither a file nor a link to one"))
}

/// The file system, with a base folder for relative paths.
#[derive(Clone, Debug)]
pub struct Files {
    base: PathBuf,
}

impl Files {
    /// Makes a source whose relative paths start at `base`.
    pub fn new(base: impl Into<PathBuf>) -> Self {
        Self { base: base.into() }
    }
}

impl Default for Files {
    fn default() -> Self {
        Self::new(".")
    }
}

impl FileSource for Files {
    /// Resolves links in the path's folders, so that a file reached through two folders has one
    /// path. A link in the last component is kept, because files beside it may belong to it.
    fn resolve(&self, path: &Path) -> PathBuf {
        let joined = self.base.join(path);
        let joined = std::path::absolute(&joined).unwrap_or(joined);
        let real = match (joined.parent(), joined.file_name()) {
            (Some(folder), Some(name)) => folder.canonicalize().map(|folder| folder.join(name)),
            _ => joined.canonicalize(),
        };
        // A path that does not exist is only normalized.
        real.unwrap_or_else(|_| joined.components().collect())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        read_at_most(&self.resolve(path), MAX_MODEL_BYTES)
    }

    fn find(&self, path: &Path) -> io::Result<()> {
        let path = self.resolve(path);
        check_regular(&path)?;
        std::fs::File::open(path).map(drop)
    }
}

/// A file source that records the files that are looked at.
#[derive(Debug, Default)]
pub struct TrackedFiles<W> {
    files: W,
    seen: Mutex<FileStamps>,
}

impl<W: FileSource> TrackedFiles<W> {
    /// Makes a source with an empty record.
    pub fn new(files: W) -> Self {
        Self {
            files,
            seen: Mutex::default(),
        }
    }

    /// Returns the paths looked at so far, including those without a file. Folders are left out.
    pub fn seen(&self) -> FileStamps {
        lock(&self.seen).clone()
    }

    fn look(&self, path: &Path) {
        if !path.is_dir() {
            lock(&self.seen).look(path);
        }
    }
}

impl<W: FileSource> FileSource for TrackedFiles<W> {
    fn resolve(&self, path: &Path) -> PathBuf {
        let resolved = self.files.resolve(path);
        self.look(&resolved);
        resolved
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.look(&self.files.resolve(path));
        self.files.read(path)
    }

    fn find(&self, path: &Path) -> io::Result<()> {
        self.look(&self.files.resolve(path));
        self.files.find(path)
    }

    fn also_seen(&self, seen: &FileStamps) {
        lock(&self.seen).extend(seen);
        self.files.also_seen(seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_named_from_two_folders_is_one_path() {
        let root = std::env::temp_dir().join(format!("graphmill-files-{}", std::process::id()));
        for folder in ["a", "b"] {
            std::fs::create_dir_all(root.join(folder)).expect("writable");
        }
        std::fs::write(root.join("model"), "").expect("writable");
        let from = |folder: &str| Files::new(root.join(folder)).resolve(Path::new("../model"));
        let (a, b) = (from("a"), from("b"));
        std::fs::remove_dir_all(&root).expect("writable");
        assert_eq!(a, b);
        assert!(a.is_absolute() && a.ends_with("model") && !a.to_string_lossy().contains(".."));
    }

    #[test]
    fn a_path_that_does_not_exist_is_only_joined() {
        let files = Files::new("/nowhere/graph");
        assert_eq!(
            files.resolve(Path::new("./model")),
            Path::new("/nowhere/graph/model")
        );
    }

    #[cfg(unix)]
    #[test]
    fn what_has_no_end_is_not_read() {
        let files = Files::default();
        let error = files.read(Path::new("/dev/zero")).expect_err("refused");
        assert_eq!(error.to_string(), "is neither a file nor a link to one");
        assert!(files.find(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn a_file_that_would_fill_the_memory_is_not_read() {
        let path = std::env::temp_dir().join(format!("graphmill-large-{}", std::process::id()));
        let sized = |bytes| {
            let file = std::fs::File::create(&path).expect("writable");
            file.set_len(bytes).expect("sparse");
            read_regular(&path)
        };
        let whole = sized(MAX_READ_BYTES).map(|contents| contents.len());
        let larger = sized(1 << 40);
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(whole.expect("it fits"), 64 << 20);
        let error = larger.expect_err("refused");
        assert_eq!(error.to_string(), "it has more than 64 MiB");
    }
}
