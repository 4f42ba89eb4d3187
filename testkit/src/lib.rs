//! Model files for tests and measurements: a [`gguf`] file in parts, random [`weights`], a random
//! [`projector`], and the [`embeddings`] of the model in this repository.
//!
//! Mistakes of a caller panic, as in a test.

pub mod embeddings;
pub mod gguf;
pub mod projector;
pub mod weights;
