//! The files of the page.

use std::{
    collections::HashMap,
    io::Write as _,
    sync::{LazyLock, OnceLock},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use include_dir::{Dir, include_dir};
use ring::digest::{SHA256, digest};

/// What `scripts/web.sh` built and committed, so that cargo needs no Node.
static BUILT: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../web/dist");

static FILES: LazyLock<HashMap<&'static str, File>> = LazyLock::new(|| {
    let named = BUILT.files().filter_map(|file| {
        let name = file.path().to_str()?;
        Some((name, File::new(name, file.contents())))
    });
    named.collect()
});

/// How much of a digest tells one file from another, in bytes.
const TAG_BYTES: usize = 12;

/// A file of the page.
pub(super) struct File {
    /// As it is.
    pub(super) bytes: &'static [u8],
    /// The `content-type`.
    pub(super) media_type: &'static str,
    /// Weak, as the compressed file has the same.
    pub(super) etag: String,
    /// Compressed when it is first asked for so.
    gzip: OnceLock<Bytes>,
}

impl File {
    fn new(name: &str, bytes: &'static [u8]) -> Self {
        let digest = digest(&SHA256, bytes);
        let tag = &digest.as_ref()[..TAG_BYTES];
        Self {
            bytes,
            media_type: media_type(name),
            etag: format!("W/\"{}\"", URL_SAFE_NO_PAD.encode(tag)),
            gzip: OnceLock::new(),
        }
    }

    /// The file, compressed.
    pub(super) fn gzip(&self) -> Bytes {
        let compressed = self.gzip.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            // A vector takes whatever is written.
            let _ = encoder.write_all(self.bytes);
            encoder.finish().unwrap_or_default().into()
        });
        compressed.clone()
    }
}

/// The file of this name.
pub(super) fn named(name: &str) -> Option<&'static File> {
    FILES.get(name)
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    }
}
