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
    /// What the header says of a body; none for one that is as it is.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, Failure> {
        let mut found = None;
        for value in headers.get_all(header::CONTENT_ENCODING) {
            let value = value.to_str().unwrap_or("?");
            for coding in value.split(',').map(str::trim) {
                let coding = Self::named(coding).map_err(|()| unknown())?;
                // No client compresses a request twice.
                if coding.is_some() && std::mem::replace(&mut found, coding).is_some() {
                    return Err(unknown());
                }
            }
        }
        Ok(found)
    }

    /// The encoding of this name; `None` for an unencoded body. Fails for an unsupported name.
    fn named(coding: &str) -> Result<Option<Self>, ()> {
        match coding.to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(None),
            "gzip" | "x-gzip" => Ok(Some(Self::Gzip)),
            "deflate" => Ok(Some(Self::Deflate)),
            _ => Err(()),
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

fn has_zlib_header(bytes: &[u8]) -> bool {
    matches!(bytes, [first, second, ..]
        if first & 0x0f == 8 && (u16::from(*first) << 8 | u16::from(*second)) % 31 == 0)
}

fn unknown() -> Failure {
    let why = format!("`content-encoding` is none that is read: {ENCODINGS}");
    Failure::new(Cause::UnknownEncoding, why).of_field("content-encoding")
}
