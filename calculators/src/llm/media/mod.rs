//! Images, sounds and vectors of requests: from what a request says of one to what the model reads.

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

use super::claim_room;
use crate::payload::{MediaKind, MediaSource, base64};

pub use images::ImageLimits;
pub use sounds::SoundLimits;
pub(crate) use vectors::place_vectors;

/// What a request may have beside text and tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MediaLimits {
    /// Of images.
    pub images: ImageLimits,
    /// Of sounds.
    pub sounds: SoundLimits,
    /// True if its prompts may be vectors.
    pub vectors: bool,
}

impl MediaLimits {
    /// Refuses what a request cannot have, whatever the model takes, without reading it.
    ///
    /// # Errors
    /// Names the image or sound that is one too many, or not given in a way that is read.
    pub(crate) fn check(self, engine: &LlmEngine, media: &[MediaSource]) -> Result<()> {
        let seen = |medium: &&MediaSource| !is_told_of(engine, medium);
        let of = |kind| media.iter().filter(seen).filter(move |it| it.kind == kind);
        self.images.check(of(MediaKind::Image))?;
        self.sounds.check(of(MediaKind::Sound))
    }

    /// Refuses also what a model does not take.
    ///
    /// # Errors
    /// Names the image or sound.
    pub(crate) fn check_for(self, engine: &LlmEngine, media: &[MediaSource]) -> Result<()> {
        for medium in media {
            vision(engine, medium.kind, &medium.field)?;
        }
        self.check(engine, media)
    }

    /// An image or a sound as the model reads it, known again among requests with the same salt.
    ///
    /// # Errors
    /// What is wrong with it.
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

/// Returns true if a model that does not take an image or a sound is told of it instead.
pub(crate) fn is_told_of(engine: &LlmEngine, medium: &MediaSource) -> bool {
    medium.in_result && vision(engine, medium.kind, &medium.field).is_err()
}

/// What reads the image or the sound that a field of a request has.
///
/// # Errors
/// The model takes none.
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
            MediaKind::Image => "is an image, and the model takes no images",
            MediaKind::Sound => "is a sound, and the model takes no sound",
        };
        wrong(field, message, "unsupported_parameter")
    })
}

/// The error of what a model cannot take.
pub(crate) fn unreadable(kind: MediaKind, field: &str, why: &str) -> Error {
    let code = match kind {
        MediaKind::Image => images::INVALID,
        MediaKind::Sound => sounds::INVALID,
    };
    wrong(field, &format!("cannot be read: {why}"), code)
}

/// The bytes of a file that is given as Base64, with memory claimed for them; `invalid` is the code
/// of an error.
fn decoded(field: &str, text: &str, invalid: &'static str) -> Result<Vec<u8>> {
    let claim = claim_room(text.len());
    let _claim = claim.map_err(|error| error.with_field(field.to_owned()))?;
    base64::decode(text).map_err(|why| wrong(field, &why, invalid))
}

/// An error about an image or a sound of a request.
fn wrong(field: &str, message: &str, code: &'static str) -> Error {
    Error::invalid(format!("`{field}` {message}"))
        .with_field(field.to_owned())
        .with_code(code)
}
