//! Archives: a folder that can be served as one file, a tar file whose first entry lists all others
//! with their sums.

pub(super) mod pack;
mod unpack;

use std::{
    fmt::Write as _,
    io::{self, Read},
    path::{Component, Path},
};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

pub(super) use unpack::{name_of, unpacked};

/// The end of the name of an archive.
pub(super) const ENDING: &str = "gmar";

/// The entry that lists the others.
const MANIFEST: &str = "MANIFEST.json";

/// The form of the manifest; another one is not read.
const FORMAT: u32 = 1;

/// Maximum size of a manifest, and number of files.
const MAX_MANIFEST_BYTES: u64 = 4 << 20;
const MAX_FILES: usize = 10_000;
/// Maximum length of the path of a file, and of its attributes, as entries of their own.
const MAX_NAME_BYTES: u64 = 64 << 10;

/// Contents of an archive.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: u32,
    /// Name of the folder, under which it is served.
    name: String,
    files: Vec<Packed>,
}

/// A file of an archive.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Packed {
    /// Relative to the folder, with `/` between its parts.
    path: String,
    bytes: u64,
    sha256: String,
}

/// Returns true if a path stays below where it begins.
fn is_inside(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// A reader that sums up what it reads.
struct Summed<R> {
    from: R,
    sum: Context,
    bytes: u64,
}

impl<R: Read> Summed<R> {
    fn new(from: R) -> Self {
        let sum = Context::new(&SHA256);
        Self {
            from,
            sum,
            bytes: 0,
        }
    }

    /// The number of bytes that were read, and their sum in hexadecimal digits.
    fn finish(self) -> (u64, String) {
        let sum = self.sum.finish();
        let mut text = String::with_capacity(64);
        for byte in sum.as_ref() {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        (self.bytes, text)
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.sum.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}
