//! Compressed bodies. A few bytes can decompress to very many, so the decompressed bytes are
//! bounded like the received ones, during decompression.

use std::io::Read;

use axum::http::{HeaderMap, header};
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

use crate::errors::{Cause, ENCODINGS, Failure};

/// Bytes that are plain before the next are asked for.
const STEP_BYTES: usize = 64 << 10;

/// How a body is encoded.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Gzip,
    Deflate,
}

impl Encoding {
    /// Reads what the header says of a body; none for one that is as it is.
    pub(super) fn read(headers: &HeaderMap) -> Result<Option<Self>, Failure> {
        let values = headers.get_all(header::CONTENT_ENCODING).iter();
        let codings = values.flat_map(|value| value.to_str().unwrap_or("?").split(','));
        let codings = codings.map(|coding| coding.trim().to_ascii_lowercase());
        let mut codings = codings.filter(|coding| !["", "identity"].contains(&coding.as_str()));
        match (codings.next().as_deref(), codings.next()) {
            (None, _) => Ok(None),
            (Some("gzip" | "x-gzip"), None) => Ok(Some(Self::Gzip)),
            (Some("deflate"), None) => Ok(Some(Self::Deflate)),
            // No client compresses a request twice.
            _ => {
                let why = format!("`content-encoding` is none that is read: {ENCODINGS}");
                Err(Failure::new(Cause::UnknownEncoding, why).of_field("content-encoding"))
            }
        }
    }

    /// The bytes that a body stands for. `keep` appends some to those before, or refuses them.
    pub(super) fn decode(
        self,
        bytes: &[u8],
        mut keep: impl FnMut(&mut Vec<u8>, &[u8]) -> Result<(), Failure>,
    ) -> Result<Vec<u8>, Failure> {
        let mut decoder: Box<dyn Read + '_> = match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(bytes)),
            // The standard means zlib's form, and some send what is inside of it.
            Self::Deflate if has_zlib_header(bytes) => Box::new(ZlibDecoder::new(bytes)),
            Self::Deflate => Box::new(DeflateDecoder::new(bytes)),
        };
        let mut plain = Vec::new();
        let mut step = vec![0; STEP_BYTES];
        loop {
            let read = decoder.read(&mut step).map_err(|error| {
                let why = format!("the body is not what `content-encoding` says: {error}");
                Failure::new(Cause::BadRequest, why)
                    .of_field("content-encoding")
                    .with_code("invalid_encoding")
            })?;
            if read == 0 {
                return Ok(plain);
            }
            keep(&mut plain, &step[..read])?;
        }
    }
}

/// Returns true if bytes begin as zlib's do: with the number of the method, 8, and two bytes that
/// 31 divides.
fn has_zlib_header(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|head: &[u8; 2]| {
        head[0] & 0x0f == 8 && u16::from_be_bytes(*head).is_multiple_of(31)
    })
}
