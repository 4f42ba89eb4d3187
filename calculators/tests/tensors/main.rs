//! Nodes on tensors: models, images, texts and labels.

use graphmill_calculators as _;

#[cfg(feature = "image")]
mod images;
mod labels;
#[cfg(feature = "onnx")]
mod onnx;
#[cfg(feature = "onnx")]
#[path = "../shared/mod.rs"]
mod shared;
mod text_features;
