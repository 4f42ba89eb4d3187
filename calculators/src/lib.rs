//! The nodes that Graphmill ships, a file each, and the subgraphs made of them.
//!
//! A calculator communicates only through its ports, options and resources. It starts no thread
//! (except for batches of tensors), never reads the environment and never opens a socket.

pub mod embed;
pub mod http;
#[cfg(feature = "image")]
pub mod image;
pub mod llm;
pub mod media;
#[cfg(feature = "onnx")]
pub mod onnx;
pub mod payload;
mod subgraphs;
pub mod tensor;
pub mod text;

/// Paths of the modules of the groups of calculators, with the title of each in the reference. The
/// first is a crate of its own.
pub const GROUPS: [(&str, &str); 9] = [
    ("graphmill_mediapipe", "Core: any graph"),
    ("graphmill_calculators::text", "Text"),
    ("graphmill_calculators::tensor", "Tensors"),
    ("graphmill_calculators::image", "Images"),
    ("graphmill_calculators::media", "Images in prompts"),
    ("graphmill_calculators::onnx", "ONNX models"),
    ("graphmill_calculators::llm", "Language models"),
    ("graphmill_calculators::embed", "Embeddings and reranking"),
    ("graphmill_calculators::http", "HTTP"),
];

#[cfg(not(feature = "onnx"))]
graphmill_engine::registry::inventory::submit! {
    graphmill_engine::registry::LeftOut {
        names: &[
            "OnnxInferenceCalculator",
            "OnnxSessionCalculator",
            "OpenVINOInferenceCalculator",
            "OpenVINOModelServerSessionCalculator",
        ],
        feature: "onnx",
    }
}

#[cfg(not(feature = "image"))]
graphmill_engine::registry::inventory::submit! {
    graphmill_engine::registry::LeftOut {
        names: &[
            "ImageDecodeCalculator",
            "ImageLayoutCalculator",
            "ImageNormalizeCalculator",
            "ImageResizeCalculator",
            "MediaDecoderCalculator",
        ],
        feature: "image",
    }
}
