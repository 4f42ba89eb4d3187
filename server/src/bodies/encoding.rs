//! Compressed bodies. A few bytes can decompress to very many, so decompression stops when its
//! output exceeds the limit on received bytes.

use std::io::Read;

use axum::http::{HeaderMap, header};
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

use crate::errors::{Cause, ENCODINGS, Failure};

/// Maximum number of bytes that one step decompresses. The limit is checked after each step.
const STEP_BYTES: usize = 64 << 10;

/// The compression of a body.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Gzip,
    Deflate,
}

impl Encoding {
    /// Reads the `content-encoding` header. `None` if the body is not compressed.
    pub(super) fn read(headers: &HeaderMap) -> Result<Option<Self>, Failure> {
        let values = headers.get_all(header::CONTENT_ENCODING).iter();
        let codings = values.flat_map(|value| value.to_str().unwrap_or("?").split(','));
        let codings = codings.map(|coding| coding.trim().to_ascii_lowercase());
        let mut codings = codings.filter(|coding| !["", "identity"].contains(&coding.as_str()));
        match (codings.next().as_deref(), codings.next()) {
            (None, _) => Ok(None),
            (Some("gzip" | "x-gzip"), None) => Ok(Some(Self::Gzip)),
            (Some("deflate"), None) => Ok(Some(Self::Deflate)),
            // A list of encodings is refused: clients do not compress a body twice.
            _ => {
                let why = format!("`content-encoding` is not supported: expected {ENCODINGS}");
                Err(Failure::new(Cause::UnknownEncoding, why).with_field("content-encoding"))
            }
        }
    }

    /// Decompresses a body. `keep` appends each piece to the bytes before it, or refuses it.
    pub(super) fn decode(
        self,
        bytes: &[u8],
        mut keep: impl FnMut(&mut Vec<u8>, &[u8]) -> Result<(), Failure>,
    ) -> Result<Vec<u8>, Failure> {
        let mut decoder: Box<dyn Read + '_> = match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(bytes)),
            // `deflate` stands for zlib's format, but some clients send raw deflate data.
            Self::Deflate if has_zlib_header(bytes) => Box::new(ZlibDecoder::new(bytes)),
            Self::Deflate => Box::new(DeflateDecoder::new(bytes)),
        };
        let mut plain = Vec::new();
        let mut step = vec![0; STEP_BYTES];
        loop {
            let read = decoder.read(&mut step).map_err(|error| {
                let why = format!("the body does not match its `content-encoding`: {error}");
                Failure::new(Cause::BadRequest, why)
                    .with_field("content-encoding")
                    .with_code("invalid_encoding")
            })?;
            if read == 0 {
                return Ok(plain);
            }
            keep(&mut plain, &step[..read])?;
        }
    }
}

/// Returns true if bytes begin with a zlib header: compression method 8 in the first byte, and a
/// multiple of 31 in the first two bytes, read as a big-endian number.
fn has_zlib_header(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|head: &[u8; 2]| {
        head[0] & 0x0f == 8 && u16::from_be_bytes(*head).is_multiple_of(31)
    })
}
