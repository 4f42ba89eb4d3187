//! Images and sounds in prompts. A model that reads them has a projector, which makes embeddings of
//! such a medium that take the place of those of tokens.
//!
//! In a prompt, each position of a medium has a placeholder: a number below 0, so that it is no
//! token of a vocabulary, and the same for all positions of a tile and for no other tile. Two
//! prompts that begin with the same numbers so begin with the same media, and what is shared of
//! them needs no word of its own.
//!
//! A medium is prepared on the thread that makes the prompt: scaled, cut into tiles, counted. Its
//! tiles are encoded on a thread of their own, one after the other, before the prompt is submitted:
//! the engine's thread never waits for them, and a tile that fails ends the request that waits for
//! it. What was encoded is kept for the next request with the same file.

use std::num::NonZero;
use std::sync::Arc;

use serde::Serialize;

mod encoder;
mod kept;
mod medium;

pub use crate::backend::{Bitmap, Decoded, Sound};
use encoder::Encoder;
pub use encoder::Encoding;
use kept::{Kept, Key};
pub(crate) use medium::check_prompt;
pub use medium::{Medium, PlacedTile, Tile};

use crate::backend::Projector;
use crate::protocol::{GenerationError, LoadError, SubmitError};
use crate::room::{self, Cache};
use crate::worker::catch;

/// What reads images and sounds for a model.
pub struct Vision {
    projector: Arc<dyn Projector>,
    kept: Arc<Kept>,
    encoder: Encoder,
}

impl Vision {
    /// Starts the thread that encodes. `cache_size` bounds the bytes of what is kept.
    pub(crate) fn start(
        projector: Arc<dyn Projector>,
        name: &str,
        cache_size: u64,
    ) -> Result<Self, LoadError> {
        let kept = Arc::new(Kept::new(cache_size));
        let cache: Arc<dyn Cache> = Arc::clone(&kept) as Arc<dyn Cache>;
        room::enroll(Arc::downgrade(&cache));
        Ok(Self {
            projector,
            kept,
            encoder: Encoder::start(name).map_err(|source| LoadError::Thread { source })?,
        })
    }

    /// Whether it reads images.
    pub fn reads_images(&self) -> bool {
        self.projector.reads_images()
    }

    /// Samples of a second of sound, if it reads sound.
    pub fn sound_rate(&self) -> Option<NonZero<u32>> {
        self.projector.sound_rate()
    }

    /// The image of a file. `decode` is called for a file that is not known among requests with the
    /// same [salt](crate::GenerationRequest::cache_salt); what is wrong with its pixels for the model
    /// becomes an error by `refused`.
    ///
    /// # Errors
    /// Those of `decode` and `refused`.
    pub fn image<E>(
        &self,
        salt: &str,
        file: &[u8],
        decode: impl FnOnce() -> Result<Bitmap, E>,
        refused: impl FnOnce(String) -> E,
    ) -> Result<Arc<Medium>, E> {
        let decode = || decode().map(Decoded::Image);
        self.read(Kept::key(salt, file), decode, refused)
    }

    /// The sound of a file, as [`image`](Self::image) gives an image.
    ///
    /// # Errors
    /// Those of `decode` and `refused`.
    pub fn sound<E>(
        &self,
        salt: &str,
        file: &[u8],
        decode: impl FnOnce() -> Result<Sound, E>,
        refused: impl FnOnce(String) -> E,
    ) -> Result<Arc<Medium>, E> {
        let decode = || decode().map(Decoded::Sound);
        self.read(Kept::key_of_sound(salt, file), decode, refused)
    }

    fn read<E>(
        &self,
        key: Key,
        decode: impl FnOnce() -> Result<Decoded, E>,
        refused: impl FnOnce(String) -> E,
    ) -> Result<Arc<Medium>, E> {
        if let Some(medium) = self.kept.find(&key) {
            return Ok(medium);
        }
        let decoded = decode()?;
        prepare(&*self.projector, &self.kept, key, &decoded).map_err(refused)
    }

    /// Encodes tiles, as far as they are not encoded, and calls `answer` on another thread when that
    /// is done. Nothing is encoded, and nobody called, for a request that has dropped what this
    /// returns.
    ///
    /// # Errors
    /// [`SubmitError::QueueFull`] if too many wait already.
    pub fn encode(
        &self,
        tiles: Vec<Arc<Tile>>,
        answer: impl FnOnce(Result<(), GenerationError>) + Send + 'static,
    ) -> Result<Encoding, SubmitError> {
        self.encoder.submit(Box::new(move |turn| {
            let encoded = turn.encode(&tiles);
            if turn.is_wanted() {
                answer(encoded);
            }
        }))
    }

    /// Prepares and encodes bitmaps, each with the salt of its request, and calls `answer` with
    /// their images on another thread when that is done. What is equal, and has the same salt, is encoded once. Nothing is done, and nobody called, for a
    /// request that has dropped what this returns.
    ///
    /// # Errors
    /// [`SubmitError::QueueFull`] if too many wait already.
    pub fn encode_bitmaps(
        &self,
        bitmaps: Vec<(Arc<str>, Bitmap)>,
        answer: impl FnOnce(Result<Vec<Arc<Medium>>, Unread>) + Send + 'static,
    ) -> Result<Encoding, SubmitError> {
        let (projector, kept) = (Arc::clone(&self.projector), Arc::clone(&self.kept));
        self.encoder.submit(Box::new(move |turn| {
            let read = |(index, (salt, bitmap)): (usize, (Arc<str>, Bitmap))| {
                let key = Kept::key_of(&salt, &bitmap);
                let known = kept.find(&key).map(Ok);
                let decoded = Decoded::Image(bitmap);
                let read = || catch(|| prepare(&*projector, &kept, key, &decoded));
                let image = known.unwrap_or_else(|| read().and_then(|prepared| prepared));
                let image = image.map_err(|message| Unread::Refused { index, message })?;
                turn.encode(image.tiles()).map_err(Unread::Failed)?;
                Ok(image)
            };
            let images = bitmaps.into_iter().enumerate().map(read).collect();
            if turn.is_wanted() {
                answer(images);
            }
        }))
    }

    /// Requests that wait for their turn to be encoded.
    pub fn waiting(&self) -> usize {
        self.encoder.waiting()
    }

    /// What was read so far.
    pub fn status(&self) -> VisionStatus {
        let mut status = self.kept.status();
        status.encoded = self.encoder.encoded();
        status
    }
}

/// What the model reads in the place of what was decoded, kept by its key.
fn prepare(
    projector: &dyn Projector,
    kept: &Kept,
    key: Key,
    decoded: &Decoded,
) -> Result<Arc<Medium>, String> {
    let medium = Arc::new(Medium::new(projector.prepare(decoded)?));
    let bytes = medium.positions() * projector.width() * size_of::<f32>();
    Ok(kept.insert(key, medium, bytes as u64))
}

/// Why bitmaps have no embeddings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The model cannot take one of them.
    Refused {
        /// Which one.
        index: usize,
        /// Why.
        message: String,
    },
    /// One of them could not be encoded.
    Failed(GenerationError),
}

impl std::fmt::Debug for Vision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vision")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

/// What a model has read of images and sounds. All 0 for a model that takes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VisionStatus {
    /// Images and sounds that requests had.
    pub queries: u64,
    /// Those of them that were known.
    pub hits: u64,
    /// Tiles that were encoded.
    pub encoded: u64,
    /// Images and sounds that are kept.
    #[serde(rename = "images")]
    pub kept: u64,
    /// Their bytes.
    #[serde(rename = "bytes")]
    pub kept_bytes: u64,
}
