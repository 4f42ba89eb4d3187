//! Images of requests: from what a request says of one to what the model reads.

use std::sync::Arc;

use graphmill_engine::Result;
use graphmill_llm::{Bitmap, Medium, Vision};
#[cfg(feature = "image")]
use image::ImageFormat;

#[cfg(feature = "image")]
use super::claim_room;
use super::{bytes_of, decoded, unreadable, wrong};
use crate::payload::MediaSource;

/// The code of an error about an image that cannot be read.
pub(super) const INVALID: &str = "invalid_image";

/// What a request may have of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageLimits {
    /// Most of them.
    pub count: u32,
    /// Most bytes of a file.
    pub bytes: u64,
    /// Most pixels of an image.
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

/// What decoding an image takes for each of its pixels: as it is stored, and in three colors.
#[cfg(feature = "image")]
const BYTES_OF_EACH: u64 = 12;

/// The formats that are read. Of a file with several pictures, the first is.
#[cfg(feature = "image")]
const READ: [ImageFormat; 5] = [
    ImageFormat::Png,
    ImageFormat::Jpeg,
    ImageFormat::WebP,
    ImageFormat::Gif,
    ImageFormat::Bmp,
];

impl ImageLimits {
    /// Refuses images that a request cannot have, whatever the model takes, without reading them.
    ///
    /// # Errors
    /// Names the image that is one too many, or not given in a way that is read.
    pub(crate) fn check<'a>(self, images: impl Iterator<Item = &'a MediaSource>) -> Result<()> {
        for (index, image) in images.enumerate() {
            if index >= self.count as usize {
                let message = format!(
                    "is one image too many: a request can have {} (max_images)",
                    self.count
                );
                return Err(wrong(&image.field, &message, "too_many_images"));
            }
            self.check_bytes(image, bytes_of(base64(image)?))?;
        }
        Ok(())
    }

    /// The image as the model reads it.
    ///
    /// # Errors
    /// What is wrong with it.
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

    /// The pixels of an image.
    ///
    /// # Errors
    /// What is wrong with it.
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
            "is an image of {bytes} bytes, and can have {} (max_image_bytes)",
            self.bytes
        );
        Err(wrong(&image.field, &message, "image_too_large"))
    }

    /// The pixels of a file. How many they are is looked at before they are decoded.
    #[cfg(feature = "image")]
    fn decode_file(self, image: &MediaSource, file: &[u8]) -> Result<Bitmap> {
        use image::{DynamicImage, ImageDecoder as _, ImageReader};

        let damaged = |error: image::ImageError| {
            let message = format!("cannot be decoded: {error}");
            wrong(&image.field, &message, INVALID).with_source(error)
        };
        let format = image::guess_format(file).ok();
        if !format.is_some_and(|format| READ.contains(&format)) {
            let message = "is no PNG, JPEG, WebP, GIF or BMP file";
            return Err(wrong(&image.field, message, INVALID));
        }
        let reader = ImageReader::new(std::io::Cursor::new(file)).with_guessed_format();
        let reader = reader.map_err(|error| damaged(error.into()))?;
        let mut decoder = reader.into_decoder().map_err(damaged)?;
        let (width, height) = decoder.dimensions();
        let pixels = u64::from(width) * u64::from(height);
        if pixels > self.pixels {
            let message = format!(
                "is an image of {width} x {height} pixels, and can have {} (max_image_pixels)",
                self.pixels
            );
            return Err(wrong(&image.field, &message, "image_too_large"));
        }
        let _claim = claim_room((pixels * BYTES_OF_EACH) as usize)?;
        let mut limits = image::Limits::default();
        // What the decoder itself needs beside the pixels.
        limits.max_alloc = Some(pixels * BYTES_OF_EACH + (1 << 20));
        decoder.set_limits(limits).map_err(damaged)?;
        let turned = decoder.orientation().map_err(damaged)?;
        let mut upright = DynamicImage::from_decoder(decoder).map_err(damaged)?;
        upright.apply_orientation(turned);
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

/// The Base64 of an image.
fn base64(image: &MediaSource) -> Result<&str> {
    let url = &*image.data;
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") {
        let message = "is the URL of an image, and this server fetches none: send it as `data:image/png;base64,...`";
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
