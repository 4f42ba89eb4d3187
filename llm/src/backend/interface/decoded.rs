//! Images and sounds as they are given to a projector.

use std::fmt;

/// What a projector takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded {
    /// An image.
    Image(Bitmap),
    /// A sound.
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
    /// Pixels line by line, each red, green and blue; `None` unless there are as many as width and
    /// height say, and at least one.
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Option<Self> {
        let bytes = u64::from(width) * u64::from(height) * 3;
        (bytes > 0 && bytes == rgb.len() as u64).then_some(Self { width, height, rgb })
    }

    /// Pixels of a line.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Lines.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The pixels, line by line, each red, green and blue.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// The same, without the size.
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
    /// Samples, as many a second as the [projector](crate::Vision::sound_rate) takes; `None` unless
    /// there is at least one and all are finite.
    pub fn new(samples: Vec<f32>) -> Option<Self> {
        let is_finite = samples.iter().all(|sample| sample.is_finite());
        (!samples.is_empty() && is_finite).then_some(Self(samples))
    }

    /// So many samples that say nothing.
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
