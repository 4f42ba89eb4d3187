//! Nodes on tensors: models, images, texts and labels.

use graphmill_calculators as _;

#[cfg(feature = "image")]
mod images;
mod labels;
#[cfg(feature = "onnx")]
mod onnx;
mod text_features;
