//! Nodes that prepare images for models: they decode, resize, reorder and normalize them.
//!
//! An image is a tensor: UINT8 of shape `[height, width, channels]`, rows from the top, with one
//! channel for gray and three for colors.

mod decode;
pub(crate) mod file;
mod layout;
mod normalize;
mod pixels;
mod resize;
mod webp;

pub use decode::{ColorOption, ImageDecode, ImageDecodeOptions};
pub use layout::{ImageLayout, ImageLayoutOptions, LayoutOption};
pub use normalize::{ImageNormalize, ImageNormalizeOptions};
pub use resize::{FilterOption, FitOption, ImageResize, ImageResizeOptions};
