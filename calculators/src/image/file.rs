//! Decoding of image files, within limits that hold from the first byte. Memory is claimed before
//! the decoder allocates it for the sizes that a file states, including those of its metadata.

use graphmill_engine::{Error, Result};
use image::{DynamicImage, ImageDecoder as _, ImageError, ImageFormat, ImageReader, Limits};

use super::webp;
use crate::llm::claim_room;

/// Accepted formats. Of a file with several pictures, the first one is decoded.
const READ: [ImageFormat; 5] = [
    ImageFormat::Png,
    ImageFormat::Jpeg,
    ImageFormat::WebP,
    ImageFormat::Gif,
    ImageFormat::Bmp,
];
/// Maximum size of a compressed color profile, in bytes. Profiles of cameras and printers are
/// smaller.
const PROFILE: u64 = 4 << 20;
/// Bytes before the chunks of a PNG file.
const PNG_HEAD: usize = 8;
/// Maximum size of a pixel, in bytes: four channels of 16 bits.
const LARGEST_PIXEL: u64 = 8;
/// Bytes that decoders use for a pixel beside the decoded one: coefficients of a progressive JPEG,
/// planes and canvas of an animated WebP.
const DECODER_PIXEL: u64 = 10;

/// Dimensions and decoding cost of a picture, as its file states them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Width in pixels, before the picture is turned upright.
    pub width: u32,
    /// Height in pixels, before the picture is turned upright.
    pub height: u32,
    /// Bytes of the decoded picture, as the file stores its pixels.
    pub bytes: u64,
}

impl Size {
    /// Returns the number of pixels.
    pub(crate) fn pixels(self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }
}

/// The reason that a file gives no picture, as the end of a sentence about the image.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The format of the file is not accepted.
    #[error("is not a PNG, JPEG, WebP, GIF or BMP file")]
    Unknown,
    #[error("cannot be decoded: {0}")]
    Damaged(#[from] ImageError),
    /// The compressed color profile is damaged or too large.
    #[error("has a color profile that is damaged or of more than {most} MiB", most = PROFILE >> 20)]
    Profile,
    /// The picture is too large, or there is not enough memory for it now.
    #[error("{0}")]
    Refused(Error),
}

impl Fault {
    /// Returns the reason as text.
    ///
    /// # Errors
    /// The error of a refused image.
    pub(crate) fn reason(self) -> Result<String> {
        match self {
            Self::Refused(error) => Err(error),
            fault => Ok(fault.to_string()),
        }
    }
}

/// Returns true if a file has an accepted format.
pub(crate) fn is_known(file: &[u8]) -> bool {
    image::guess_format(file).is_ok_and(|format| READ.contains(&format))
}

/// Decodes a file to an upright picture. `check` refuses sizes before pixels are decoded; it must
/// refuse pictures that are wider than `most_width`.
pub(crate) fn decode(
    file: &[u8],
    most_width: u64,
    check: impl FnOnce(Size) -> Result<()>,
) -> Result<DynamicImage, Fault> {
    let format = image::guess_format(file).map_err(|_| Fault::Unknown)?;
    if !READ.contains(&format) {
        return Err(Fault::Unknown);
    }
    let claim = |bytes: u64| claim_room(bytes as usize).map_err(Fault::Refused);
    let tables = match format {
        ImageFormat::WebP => webp::check(file)?,
        _ => 0,
    };
    // Metadata is copied, and a chunk of it is allocated while it grows.
    let mut header = 3 * file.len() as u64 + PROFILE;
    if format == ImageFormat::Png {
        // The decoder of PNG allocates a row, where others only read the header.
        header += LARGEST_PIXEL * png_width(file).min(most_width);
    }
    let _header = claim(header)?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(header);
    let mut reader = ImageReader::with_format(std::io::Cursor::new(file), format);
    reader.limits(limits.clone());
    let mut decoder = reader.into_decoder()?;
    // The decoder of PNG skips a profile that is larger than its limit.
    if has_compressed_profile(format, file) && decoder.icc_profile()?.is_none() {
        return Err(Fault::Profile);
    }
    let (width, height) = decoder.dimensions();
    let size = Size {
        width,
        height,
        bytes: decoder.total_bytes(),
    };
    check(size).map_err(Fault::Refused)?;
    let pixels = size
        .bytes
        .saturating_add(size.pixels().saturating_mul(DECODER_PIXEL));
    let _decoded = claim(pixels.saturating_add(tables))?;
    limits.max_alloc = Some(header.saturating_add(pixels));
    decoder.set_limits(limits)?;
    let turned = decoder.orientation()?;
    let mut upright = DynamicImage::from_decoder(decoder)?;
    upright.apply_orientation(turned);
    Ok(upright)
}

/// Returns true if a chunk before the pixels of a PNG file has a color profile.
fn has_compressed_profile(format: ImageFormat, file: &[u8]) -> bool {
    let mut chunks = file.get(PNG_HEAD..).filter(|_| format == ImageFormat::Png);
    while let Some((length, rest)) = chunks.and_then(<[u8]>::split_first_chunk) {
        match rest.first_chunk() {
            Some(b"iCCP") => return true,
            Some(b"IDAT") => return false,
            // A chunk's kind is before its data, and a checksum after it.
            _ => chunks = rest.get(u32::from_be_bytes(*length) as usize + 8..),
        }
    }
    false
}

/// Returns the width in the header of a PNG file, which is its first chunk.
fn png_width(file: &[u8]) -> u64 {
    let width = file.get(16..20).and_then(|width| width.try_into().ok());
    width.map_or(0, |width| u64::from(u32::from_be_bytes(width)))
}
