//! What reads images and sounds for a model.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The projector of a model that reads images or sounds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VisionSpec {
    /// Its file, which is made for the model.
    pub mmproj: PathBuf,
    /// Whether the model is refused where the projector cannot be used. Else it is loaded without,
    /// and a warning says why.
    pub required: bool,
    /// Bytes of host memory for what was encoded, which need not be encoded again; 0 keeps
    /// none.
    pub cache_size: u64,
}

impl VisionSpec {
    /// What encoded images may take, unless the spec says otherwise: about 30 images of a model of 7
    /// billion parameters.
    pub const CACHE_SIZE: u64 = 256 << 20;

    /// The defaults for a projector.
    pub fn new(mmproj: impl Into<PathBuf>) -> Self {
        Self {
            mmproj: mmproj.into(),
            required: true,
            cache_size: Self::CACHE_SIZE,
        }
    }
}
