//! Checks of WebP files before they are decoded. The decoder allocates what headers say: for
//! chunks, for pictures in a canvas, and for tables of codes.

use image::ImageFormat;
use image::error::{DecodingError, ImageError};

/// Bytes that tables of codes take for a byte of lossless data: the shortest description of a table
/// of 4 KiB has twelve bytes.
const TABLE_RATIO: u64 = 350;
/// Maximum size of a chunk of lossless data, in bytes. Its tables take at most 437 MiB.
const MAX_LOSSLESS: usize = 1_310_000;
/// Bytes before the chunks of a file: `RIFF`, its length, `WEBP`.
const FILE_HEAD: usize = 12;
/// Bytes before the chunks of a frame: its place, its size and its duration.
const FRAME_HEAD: usize = 16;

/// Width and height in pixels.
type Canvas = (u32, u32);

/// Refuses a file whose parts do not fit into their containers, and returns the bytes that tables
/// of codes may take while it is decoded.
pub(super) fn check(file: &[u8]) -> Result<u64, ImageError> {
    let tables = tables(file.get(FILE_HEAD..).unwrap_or_default(), None);
    tables.map_err(|why| ImageError::Decoding(DecodingError::new(ImageFormat::WebP.into(), why)))
}

fn tables(mut chunks: &[u8], mut canvas: Option<Canvas>) -> Result<u64, &'static str> {
    let mut most = 0;
    while let Some((head, rest)) = chunks.split_first_chunk::<8>() {
        let [a, b, c, d, length @ ..] = *head;
        let length = u32::from_le_bytes(length) as usize;
        let Some((body, rest)) = rest.split_at_checked(length) else {
            return Err("it ends inside of a chunk");
        };
        // A byte of padding follows chunks of an odd length.
        chunks = rest.get(length % 2..).unwrap_or_default();
        match (&[a, b, c, d], body) {
            (b"VP8X", [_, _, _, _, size @ ..]) => canvas = canvas.or(canvas_of(size)),
            (b"ANMF", [_, _, _, _, _, _, size @ ..]) if body.len() >= FRAME_HEAD => {
                most = most.max(tables(&body[FRAME_HEAD..], canvas_of(size))?);
            }
            (b"VP8 ", [_, _, _, _, _, _, a, b, c, d, ..]) => {
                let side = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3FFF);
                if canvas.is_some_and(|canvas| canvas != (side(*a, *b), side(*c, *d))) {
                    return Err("it has a picture with another size than its canvas");
                }
            }
            (b"VP8L" | b"ALPH", _) if length > MAX_LOSSLESS => {
                return Err(
                    "it has more than 1,310,000 bytes of lossless data, whose tables could fill the memory: send a PNG, or \
                     a lossy WebP",
                );
            }
            (b"VP8L" | b"ALPH", _) => most = most.max(length as u64 * TABLE_RATIO),
            _ => {}
        }
    }
    Ok(most)
}

/// Reads the size in a header: each side minus one, in three bytes.
fn canvas_of(head: &[u8]) -> Option<Canvas> {
    let side =
        |at: usize| Some(u32::from_le_bytes([*head.get(at)?, head[at + 1], head[at + 2], 0]) + 1);
    (head.len() >= 6).then(|| Some((side(0)?, side(3)?)))?
}
