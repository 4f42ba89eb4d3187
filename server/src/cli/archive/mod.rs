//! Archives: folders that can be served as one file. An archive is a tar file whose first entry is
//! a manifest of all others with their checksums.

pub(super) mod pack;
mod unpack;

use std::{
    io::{self, Read},
    path::{Component, Path},
};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::hub::hex;
pub(super) use unpack::{name_of, unpacked};

pub(super) const ENDING: &str = "gmar";

/// Name of the manifest, which is the first entry of an archive.
const MANIFEST: &str = "MANIFEST.json";

/// Version of the manifest's format; others are not read.
const FORMAT: u32 = 1;

/// Maximum size of a manifest in bytes.
const MAX_MANIFEST_BYTES: u64 = 4 << 20;
const MAX_FILES: usize = 10_000;
/// Maximum length in bytes of a path or an extended attribute, which tar stores as entries of their
/// own.
const MAX_NAME_BYTES: u64 = 64 << 10;

/// The manifest: name and files of an archive.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: u32,
    /// Name of the folder, which is the model's name in requests.
    name: String,
    files: Vec<PackedFile>,
}

/// A file of an archive.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackedFile {
    /// Path in the folder, with `/` between its parts.
    path: String,
    bytes: u64,
    sha256: String,
}

/// Returns true if a path is relative and does not leave its folder.
fn is_inside(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Reader that computes the checksum of the bytes it reads.
struct ChecksumReader<R> {
    from: R,
    sum: Context,
    bytes: u64,
}

impl<R: Read> ChecksumReader<R> {
    fn new(from: R) -> Self {
        Self {
            from,
            sum: Context::new(&SHA256),
            bytes: 0,
        }
    }

    /// Returns the number of bytes read, and their checksum in hexadecimal.
    fn finish(self) -> (u64, String) {
        (self.bytes, hex(self.sum.finish().as_ref()))
    }
}

impl<R: Read> Read for ChecksumReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.sum.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}
