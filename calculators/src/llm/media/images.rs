//! Images of requests: their limits, and their conversion to the model's input.

use std::sync::Arc;

use graphmill_engine::Result;
use graphmill_llm::{Bitmap, Medium, Vision};

use super::{decoded, unreadable, wrong};
#[cfg(feature = "image")]
use crate::image::file::{self, Size};
use crate::payload::{MediaSource, base64::least_bytes};

/// The code of an error about an image that cannot be read.
pub(super) const INVALID: &str = "invalid_image";

/// Maximum width and height in pixels: the resizer keeps 48 bytes for each row and column.
#[cfg(feature = "image")]
const MAX_SIDE: u32 = 1 << 15;

/// Limits of the images of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageLimits {
    /// Maximum number of images in a request.
    pub count: u32,
    /// Maximum size of an image file, in bytes.
    pub bytes: u64,
    /// Maximum number of pixels of an image, width times height.
    pub pixels: u64,
}

impl Default for ImageLimits {
    fn default() -> Self {
        Self {
            count: 16,
            bytes: 8 << 20,
            pixels: 1 << 24,
        }
    }
}

impl ImageLimits {
    /// Checks the number and the form of a request's images, without reading them and for any
    /// model.
    ///
    /// # Errors
    /// The error names the first image beyond the limit, or the first one in an unsupported form.
    pub(crate) fn check<'a>(self, images: impl Iterator<Item = &'a MediaSource>) -> Result<()> {
        for (index, image) in images.enumerate() {
            if index >= self.count as usize {
                let message = format!(
                    "is one image too many: a request can have {} (max_images)",
                    self.count
                );
                return Err(wrong(&image.field, &message, "too_many_images"));
            }
            self.check_bytes(image, least_bytes(base64(image)?))?;
        }
        Ok(())
    }

    /// Reads an image into the model's input.
    ///
    /// # Errors
    /// The image cannot be read or is too large. The error names it.
    pub(super) fn read(
        self,
        vision: &Vision,
        salt: &str,
        image: &MediaSource,
    ) -> Result<Arc<Medium>> {
        let file = self.file(image)?;
        vision.image(
            salt,
            &file,
            || self.decode_file(image, &file),
            |message| unreadable(image.kind, &image.field, &message),
        )
    }

    /// Decodes an image to pixels.
    ///
    /// # Errors
    /// The image cannot be read or is too large. The error names it.
    #[cfg(feature = "image")]
    pub(crate) fn decode(self, image: &MediaSource) -> Result<Bitmap> {
        self.decode_file(image, &self.file(image)?)
    }

    fn file(self, image: &MediaSource) -> Result<Vec<u8>> {
        let file = decoded(&image.field, base64(image)?, INVALID)?;
        self.check_bytes(image, file.len() as u64)?;
        Ok(file)
    }

    fn check_bytes(self, image: &MediaSource, bytes: u64) -> Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let message = format!(
            "is an image of {bytes} bytes, but can have at most {} (max_image_bytes)",
            self.bytes
        );
        Err(wrong(&image.field, &message, "image_too_large"))
    }

    /// Decodes a file to pixels, after checking their number.
    #[cfg(feature = "image")]
    fn decode_file(self, image: &MediaSource, file: &[u8]) -> Result<Bitmap> {
        let check = |size: Size| {
            let limit = if size.width.max(size.height) > MAX_SIDE {
                format!("{MAX_SIDE} on a side")
            } else if size.pixels() > self.pixels {
                format!("{} (max_image_pixels)", self.pixels)
            } else {
                return Ok(());
            };
            let message = format!(
                "is an image of {} x {} pixels, but can have at most {limit}",
                size.width, size.height
            );
            Err(wrong(&image.field, &message, "image_too_large"))
        };
        let widest = self.pixels.min(MAX_SIDE.into());
        let upright = file::decode(file, widest, check).map_err(|fault| {
            fault.reason().map_or_else(
                |error| error.with_field(image.field.to_string()),
                |why| wrong(&image.field, &why, INVALID),
            )
        })?;
        let rgb = upright.into_rgb8();
        let bitmap = Bitmap::new(rgb.width(), rgb.height(), rgb.into_raw());
        bitmap.ok_or_else(|| wrong(&image.field, "has no pixels", INVALID))
    }

    #[cfg(not(feature = "image"))]
    #[expect(clippy::unused_self, reason = "looks at the limits where it decodes")]
    fn decode_file(self, image: &MediaSource, _: &[u8]) -> Result<Bitmap> {
        let message = "cannot be decoded: this build was made without the feature `image`";
        Err(wrong(&image.field, message, "unsupported_parameter"))
    }
}

/// Returns the Base64 of an image.
fn base64(image: &MediaSource) -> Result<&str> {
    let url = &*image.data;
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    let schemes = ["http", "https", "file"];
    if schemes.iter().any(|it| scheme.eq_ignore_ascii_case(it)) {
        let message =
            "is the URL of an image, but this server fetches none: send its bytes as Base64";
        return Err(wrong(&image.field, message, "unsupported_parameter"));
    }
    let data = url
        .get(..5)
        .filter(|scheme| scheme.eq_ignore_ascii_case("data:"))
        .and_then(|_| url[5..].split_once(','));
    match data {
        Some((kind, data)) if kind.to_ascii_lowercase().ends_with(";base64") => Ok(data.trim()),
        _ => {
            let message = "must be an image as `data:image/png;base64,...`";
            Err(wrong(&image.field, message, "invalid_value"))
        }
    }
}
