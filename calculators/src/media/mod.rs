//! Nodes for images between a chat template and a language model: decoder, encoder, and their
//! payloads.
//!
//! A `TokenizerCalculator` reads the images of its prompts itself. A graph that has work of its own
//! to do on them names these nodes and puts its node between them: after the decoder it gets
//! pixels, after the encoder embeddings.

#[cfg(feature = "image")]
mod decoder;
mod encoder;
mod payload;

#[cfg(feature = "image")]
pub use decoder::{MediaDecoder, MediaDecoderOptions, MediaDecoderPorts};
pub use encoder::{ImageEncoder, ImageEncoderPorts};
pub use payload::{PromptEmbeddings, PromptImage, PromptImages};
