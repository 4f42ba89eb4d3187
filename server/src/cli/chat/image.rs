//! Images in questions.

use std::{fs::File, io::Read as _, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// Maximum size of an image file in bytes, more than any server accepts in a request.
const MAX_BYTES: u64 = 64 << 20;

/// Reads an image file into a part of a message.
///
/// # Errors
///
/// If the file cannot be read, or its first bytes are not those of an image.
pub(super) fn part(file: &Path) -> Result<Value, String> {
    let shown = file.display();
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot read `{shown}`: {error}"))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("`{shown}` is larger than {} MiB", MAX_BYTES >> 20));
    }
    let media_type = media_type(&bytes).ok_or_else(|| {
        format!("`{shown}` is not an image: expected a PNG, JPEG, GIF, WebP or BMP file")
    })?;
    let url = format!("data:{media_type};base64,{}", STANDARD.encode(bytes));
    Ok(json!({ "type": "image_url", "image_url": { "url": url } }))
}

fn media_type(bytes: &[u8]) -> Option<&'static str> {
    let is_webp = |rest: &[u8]| rest.starts_with(b"WEBP");
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, rest @ ..] if is_webp(rest) => Some("image/webp"),
        [b'B', b'M', ..] => Some("image/bmp"),
        _ => None,
    }
}
