//! Images and sounds as they are given to a projector.

use std::fmt;

/// An image or a sound, as a projector takes it.
#[derive(Clone, Debug, PartialEq)]
pub enum DecodedMedium {
    /// An image, not yet scaled for the projector.
    Image(Bitmap),
    /// A sound, at the sample rate of the projector.
    Sound(Sound),
}

/// The pixels of an image.
#[derive(Clone, PartialEq, Eq)]
pub struct Bitmap {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
}

impl Bitmap {
    /// Takes pixels line by line, each red, green and blue; `None` unless their number matches
    /// width and height and is at least one.
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Option<Self> {
        let bytes = u64::from(width) * u64::from(height) * 3;
        (bytes > 0 && bytes == rgb.len() as u64).then_some(Self { width, height, rgb })
    }

    /// Pixels per line; at least 1.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Number of lines; at least 1.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The pixels, line by line, each red, green and blue.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// Returns the pixels as [`rgb`](Self::rgb) does, without a copy.
    pub fn into_rgb(self) -> Vec<u8> {
        self.rgb
    }
}

impl fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bitmap({} x {})", self.width, self.height)
    }
}

/// The samples of a sound with one channel.
#[derive(Clone, PartialEq)]
pub struct Sound(Vec<f32>);

impl Sound {
    /// Takes samples at the rate of the [projector](crate::Vision::sound_rate); `None` unless there
    /// is at least one and all are finite.
    pub fn new(samples: Vec<f32>) -> Option<Self> {
        let is_finite = samples.iter().all(|sample| sample.is_finite());
        (!samples.is_empty() && is_finite).then_some(Self(samples))
    }

    /// A sound of `samples` zeros, at least one.
    pub(crate) fn silence(samples: usize) -> Self {
        Self(vec![0.0; samples.max(1)])
    }

    /// The samples, one after the other.
    pub fn samples(&self) -> &[f32] {
        &self.0
    }
}

impl fmt::Debug for Sound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sound({} samples)", self.0.len())
    }
}
