//! Sounds of requests: their limits, and their conversion to the model's input.

use std::num::NonZero;
use std::sync::Arc;

use graphmill_engine::Result;
use graphmill_llm::{Medium, Sound, Vision};

#[cfg(feature = "sound")]
use super::samples::{self, Fault};
use super::{decoded, unreadable, wrong};
use crate::payload::{MediaSource, base64::least_bytes};

/// The code of an error about a sound that cannot be read.
pub(super) const INVALID: &str = "invalid_audio";
/// The code of an error about a sound that exceeds a limit.
const TOO_LARGE: &str = "audio_too_large";

/// Limits of the sounds of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SoundLimits {
    /// Maximum number of sounds in a request.
    pub count: u32,
    /// Maximum size of a sound file, in bytes.
    pub bytes: u64,
    /// Maximum length of a sound, in seconds.
    pub seconds: u32,
}

impl Default for SoundLimits {
    fn default() -> Self {
        Self {
            count: 16,
            bytes: 8 << 20,
            seconds: 600,
        }
    }
}

impl SoundLimits {
    /// Checks the number and the size of a request's sounds, without reading them and for any
    /// model.
    ///
    /// # Errors
    /// The error names the first sound beyond the limit, or the first one that is too large.
    pub(super) fn check<'a>(self, sounds: impl Iterator<Item = &'a MediaSource>) -> Result<()> {
        for (index, sound) in sounds.enumerate() {
            if index >= self.count as usize {
                let message = format!(
                    "is one sound too many: a request can have {} (max_sounds)",
                    self.count
                );
                return Err(wrong(&sound.field, &message, "too_many_audios"));
            }
            self.check_bytes(sound, least_bytes(&sound.data))?;
        }
        Ok(())
    }

    /// Reads a sound into the model's input.
    ///
    /// # Errors
    /// The sound cannot be read or is too long. The error names it.
    pub(super) fn read(
        self,
        vision: &Vision,
        salt: &str,
        sound: &MediaSource,
    ) -> Result<Arc<Medium>> {
        let file = decoded(&sound.field, sound.data.trim(), INVALID)?;
        self.check_bytes(sound, file.len() as u64)?;
        let rate = vision.sound_rate().unwrap_or(NonZero::<u32>::MIN);
        vision.sound(
            salt,
            &file,
            || self.decode(sound, &file, rate),
            |message| unreadable(sound.kind, &sound.field, &message),
        )
    }

    fn check_bytes(self, sound: &MediaSource, bytes: u64) -> Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let message = format!(
            "is a sound of {bytes} bytes, but can have at most {} (max_sound_bytes)",
            self.bytes
        );
        Err(wrong(&sound.field, &message, TOO_LARGE))
    }

    /// Decodes a file to samples at `rate` samples per second.
    #[cfg(feature = "sound")]
    fn decode(self, sound: &MediaSource, file: &[u8], rate: NonZero<u32>) -> Result<Sound> {
        let read = samples::read(file, rate, self.seconds);
        read.map_err(|fault| match fault {
            Fault::TooLong => {
                let message = format!(
                    "is a sound of more than {} seconds (max_sound_seconds)",
                    self.seconds
                );
                wrong(&sound.field, &message, TOO_LARGE)
            }
            Fault::Unreadable(why) => wrong(&sound.field, &why, INVALID),
            Fault::NoRoom(error) => error.with_field(sound.field.to_string()),
        })
    }

    #[cfg(not(feature = "sound"))]
    #[expect(clippy::unused_self, reason = "looks at the limits where it decodes")]
    fn decode(self, sound: &MediaSource, _: &[u8], _: NonZero<u32>) -> Result<Sound> {
        let message = "cannot be decoded: this build was made without the feature `sound`";
        Err(wrong(&sound.field, message, "unsupported_parameter"))
    }
}
