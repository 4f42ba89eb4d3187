//! Images between a chat template and a language model, as nodes: decoded, encoded, and what stands
//! for them in prompts.
//!
//! A `TokenizerCalculator` reads the images of its prompts by itself. A
//! graph that has something of its own to do with them names these nodes and has its node between
//! them: behind the decoder it sees pixels, behind the encoder embeddings.

#[cfg(feature = "image")]
mod decoder;
mod encoder;
mod payload;

#[cfg(feature = "image")]
pub use decoder::{MediaDecoder, MediaDecoderOptions, MediaDecoderPorts};
pub use encoder::{ImageEncoder, ImageEncoderPorts};
pub use payload::{PromptEmbeddings, PromptImage, PromptImages};
