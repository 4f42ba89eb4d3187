//! Spec of the encoder of images and sounds.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The projector of a model that reads images or sounds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VisionSpec {
    /// The projector file, which must be made for the model.
    pub mmproj: PathBuf,
    /// True if the model is refused when the projector cannot be used. Otherwise it is loaded
    /// without the projector, with a warning.
    pub required: bool,
    /// Maximum host memory for encoded images and sounds, in bytes; they are then not encoded
    /// again. 0 keeps none.
    pub cache_size: u64,
}

impl VisionSpec {
    /// Default cache size in bytes: about 30 images of a model with 7 billion parameters.
    pub const CACHE_SIZE: u64 = 256 << 20;

    /// Creates a spec with the defaults for a projector.
    pub fn new(mmproj: impl Into<PathBuf>) -> Self {
        Self {
            mmproj: mmproj.into(),
            required: true,
            cache_size: Self::CACHE_SIZE,
        }
    }
}
