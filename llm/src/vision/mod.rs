//! Images and sounds in prompts. A model that reads them has a projector, which converts a medium
//! to embeddings that replace those of tokens.
//!
//! In a prompt, each position of a medium has a placeholder. This is a negative number, so it is no
//! token of the vocabulary. It is the same for all positions of a tile, and differs between tiles.
//! So two prompts that begin with the same numbers begin with the same media, and prefixes can be
//! shared without further comparison.
//!
//! A medium is prepared on the thread that makes the prompt: scaled, cut into tiles, counted. Its
//! tiles are encoded on a separate thread, one after the other, before the prompt is submitted. So
//! the engine's thread never waits for them, and a failed tile ends only the request that waits for
//! it. Encoded tiles are kept for later requests with the same file.

use std::num::NonZero;
use std::sync::Arc;

use serde::Serialize;

mod encoder;
mod media_cache;
mod medium;

pub use crate::backend::{Bitmap, DecodedMedium, Sound};
pub use encoder::Encoding;
use encoder::{EncodeTurn, Encoder};
use media_cache::{IMAGE, Key, MediaCache, SOUND};
pub(crate) use medium::check_prompt;
pub use medium::{Medium, PlacedTile, Tile};

use crate::backend::Projector;
use crate::memory_budget;
use crate::protocol::{GenerationError, LoadError, SubmitError};
use crate::worker::catch;

/// The encoder of images and sounds for a model, with its cache.
pub struct Vision {
    projector: Arc<dyn Projector>,
    cache: Arc<MediaCache>,
    encoder: Encoder,
}

impl Vision {
    /// Starts the encoding thread. `cache_size` limits the cache, in bytes.
    pub(crate) fn start(
        projector: Arc<dyn Projector>,
        name: &str,
        cache_size: u64,
    ) -> Result<Self, LoadError> {
        let cache = Arc::new(MediaCache::new(cache_size));
        let weak = Arc::downgrade(&cache);
        memory_budget::enroll(weak);
        Ok(Self {
            projector,
            cache,
            encoder: Encoder::start(name).map_err(|source| LoadError::Thread { source })?,
        })
    }

    /// Returns true if the model reads images.
    pub fn reads_images(&self) -> bool {
        self.projector.reads_images()
    }

    /// Samples per second of sound; `None` if the model does not read sound.
    pub fn sound_rate(&self) -> Option<NonZero<u32>> {
        self.projector.sound_rate()
    }

    /// Returns the image of a file. `decode` is called if no request with the same
    /// [salt](crate::GenerationRequest::cache_salt) has the file in the cache. If the model cannot
    /// take the image, `refused` makes the error.
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
        let decode = || decode().map(DecodedMedium::Image);
        self.read(MediaCache::key(IMAGE, salt, file), decode, refused)
    }

    /// Returns the sound of a file, as [`image`](Self::image) does for an image.
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
        let decode = || decode().map(DecodedMedium::Sound);
        self.read(MediaCache::key(SOUND, salt, file), decode, refused)
    }

    fn read<E>(
        &self,
        key: Key,
        decode: impl FnOnce() -> Result<DecodedMedium, E>,
        refused: impl FnOnce(String) -> E,
    ) -> Result<Arc<Medium>, E> {
        if let Some(medium) = self.cache.find(&key) {
            return Ok(medium);
        }
        let decoded = decode()?;
        prepare(&*self.projector, &self.cache, key, &decoded).map_err(refused)
    }

    /// Encodes the tiles that are not encoded yet, and then calls `answer` on another thread. If
    /// the returned handle is dropped before, encoding stops and `answer` is not called.
    ///
    /// # Errors
    /// [`SubmitError::QueueFull`] if too many wait already.
    pub fn encode(
        &self,
        tiles: Vec<Arc<Tile>>,
        answer: impl FnOnce(Result<(), GenerationError>) + Send + 'static,
    ) -> Result<Encoding, SubmitError> {
        self.encoder.submit(move |turn| turn.encode(&tiles), answer)
    }

    /// Prepares and encodes bitmaps, each with the salt of its request, and then calls `answer`
    /// with their images on another thread. Equal bitmaps with the same salt are encoded once. If
    /// the returned handle is dropped before, work stops and `answer` is not called.
    ///
    /// # Errors
    /// [`SubmitError::QueueFull`] if too many wait already.
    pub fn encode_bitmaps(
        &self,
        bitmaps: Vec<(Arc<str>, Bitmap)>,
        answer: impl FnOnce(Result<Vec<Arc<Medium>>, Unread>) + Send + 'static,
    ) -> Result<Encoding, SubmitError> {
        let (projector, cache) = (Arc::clone(&self.projector), Arc::clone(&self.cache));
        let encode = move |turn: &EncodeTurn<'_>| -> Result<Vec<Arc<Medium>>, Unread> {
            let read = |(index, (salt, bitmap)): (usize, (Arc<str>, Bitmap))| {
                let key = MediaCache::key_of(&salt, &bitmap);
                let known = cache.find(&key).map(Ok);
                let decoded = DecodedMedium::Image(bitmap);
                let read = || catch(|| prepare(&*projector, &cache, key, &decoded));
                let image = known.unwrap_or_else(|| read().and_then(|prepared| prepared));
                let image = image.map_err(|message| Unread::Refused { index, message })?;
                turn.encode(image.tiles()).map_err(Unread::Failed)?;
                Ok(image)
            };
            bitmaps.into_iter().enumerate().map(read).collect()
        };
        self.encoder.submit(encode, answer)
    }

    /// Number of requests that wait for their turn to be encoded.
    pub fn waiting(&self) -> usize {
        self.encoder.waiting()
    }

    /// Counts of media and tiles since the model was loaded.
    pub fn status(&self) -> VisionStatus {
        let mut status = self.cache.status();
        status.encoded = self.encoder.encoded();
        status
    }
}

/// Prepares decoded media for the model, and adds the result to the cache.
fn prepare(
    projector: &dyn Projector,
    cache: &MediaCache,
    key: Key,
    decoded: &DecodedMedium,
) -> Result<Arc<Medium>, String> {
    let medium = Arc::new(Medium::new(projector.prepare(decoded)?));
    let bytes = medium.positions() * projector.width() * size_of::<f32>();
    Ok(cache.insert(key, medium, bytes as u64))
}

/// Cause of bitmaps that were not encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The model cannot take one of them.
    Refused {
        /// Index of the bitmap in the request.
        index: usize,
        /// Reason given by the projector.
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

/// Counts of a model's images and sounds. All are 0 for a model that takes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VisionStatus {
    /// Number of images and sounds in requests.
    pub queries: u64,
    /// Number of them that were in the cache.
    pub hits: u64,
    /// Number of tiles that were encoded.
    pub encoded: u64,
    /// Number of images and sounds in the cache.
    #[serde(rename = "images")]
    pub kept: u64,
    /// Size of the cache, in bytes.
    #[serde(rename = "bytes")]
    pub kept_bytes: u64,
}
