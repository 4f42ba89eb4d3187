//! Images, sounds and vectors of requests: their limits, and their conversion to the model's input.

mod images;
#[cfg(feature = "sound")]
mod samples;
mod sounds;
#[cfg(feature = "sound")]
mod tags;
mod vectors;

use std::sync::Arc;

use graphmill_engine::{Error, Result};
use graphmill_llm::{LlmEngine, Medium, Vision};

use super::{claim_room, wrong};
use crate::payload::{MediaKind, MediaSource, base64};

pub use images::ImageLimits;
pub use sounds::SoundLimits;
pub(crate) use vectors::place_vectors;

/// Limits of the images, sounds and vectors of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MediaLimits {
    /// Limits of its images: number, bytes and pixels.
    pub images: ImageLimits,
    /// Limits of its sounds: number, bytes and seconds.
    pub sounds: SoundLimits,
    /// True if its prompts may be vectors.
    pub vectors: bool,
}

impl MediaLimits {
    /// Checks the number and the form of images and sounds, without reading them and for any model.
    ///
    /// # Errors
    /// The error names the first image or sound beyond the limit, or the first one in an
    /// unsupported form.
    pub(crate) fn check(self, engine: &LlmEngine, media: &[MediaSource]) -> Result<()> {
        let seen = |medium: &&MediaSource| !is_told_of(engine, medium);
        let of = |kind| media.iter().filter(seen).filter(move |it| it.kind == kind);
        self.images.check(of(MediaKind::Image))?;
        self.sounds.check(of(MediaKind::Sound))
    }

    /// Checks also that the model takes images or sounds.
    ///
    /// # Errors
    /// The error names the image or sound.
    pub(crate) fn check_for(self, engine: &LlmEngine, media: &[MediaSource]) -> Result<()> {
        for medium in media {
            vision(engine, medium.kind, &medium.field)?;
        }
        self.check(engine, media)
    }

    /// Reads an image or a sound into the model's input. Requests with the same salt share the
    /// encoded result.
    ///
    /// # Errors
    /// The image or sound cannot be read or is too large. The error names it.
    pub(crate) fn read(
        self,
        engine: &LlmEngine,
        salt: &str,
        medium: &MediaSource,
    ) -> Result<Arc<Medium>> {
        let vision = vision(engine, medium.kind, &medium.field)?;
        match medium.kind {
            MediaKind::Image => self.images.read(vision, salt, medium),
            MediaKind::Sound => self.sounds.read(vision, salt, medium),
        }
    }
}

/// Returns true if a model that does not take an image or a sound gets a note instead.
pub(crate) fn is_told_of(engine: &LlmEngine, medium: &MediaSource) -> bool {
    medium.in_result && vision(engine, medium.kind, &medium.field).is_err()
}

/// Returns the projector that reads a kind of media, for the request's field.
///
/// # Errors
/// The model does not take this kind.
pub(crate) fn vision<'a>(
    engine: &'a LlmEngine,
    kind: MediaKind,
    field: &str,
) -> Result<&'a Vision> {
    let reads = |vision: &&Vision| match kind {
        MediaKind::Image => vision.reads_images(),
        MediaKind::Sound => vision.sound_rate().is_some(),
    };
    engine.vision().filter(reads).ok_or_else(|| {
        let message = match kind {
            MediaKind::Image => "is an image, but the model takes no images",
            MediaKind::Sound => "is a sound, but the model takes no sound",
        };
        wrong(field, message, "unsupported_parameter")
    })
}

/// Returns the error for an image or a sound that a model cannot take.
pub(crate) fn unreadable(kind: MediaKind, field: &str, why: &str) -> Error {
    let code = match kind {
        MediaKind::Image => images::INVALID,
        MediaKind::Sound => sounds::INVALID,
    };
    wrong(field, &format!("cannot be read: {why}"), code)
}

/// Decodes a file from Base64, and claims memory for it. `invalid` is the code of an error.
fn decoded(field: &str, text: &str, invalid: &'static str) -> Result<Vec<u8>> {
    let claim = claim_room(text.len());
    let _claim = claim.map_err(|error| error.with_field(field.to_owned()))?;
    base64::decode(text).map_err(|why| wrong(field, &why, invalid))
}
