//! The nodes that Graphmill ships, a file each, and the subgraphs made of them.
//!
//! A calculator communicates only through its ports, options and resources. It starts no thread
//! (except for batches of tensors), never reads the environment and never opens a socket.

pub mod core;
pub mod embed;
pub mod http;
#[cfg(feature = "image")]
pub mod image;
pub mod llm;
pub mod media;
#[cfg(feature = "onnx")]
pub mod onnx;
pub mod payload;
mod payload_json;
mod subgraphs;
pub mod tensor;
pub mod text;
pub mod text_nodes;

/// Modules of the groups of calculators, with the title of each in the reference.
pub const GROUPS: [(&str, &str); 9] = [
    ("core", "Core: any graph"),
    ("text_nodes", "Text"),
    ("tensor", "Tensors"),
    ("image", "Images"),
    ("media", "Images in prompts"),
    ("onnx", "ONNX models"),
    ("llm", "Language models"),
    ("embed", "Embeddings and reranking"),
    ("http", "HTTP"),
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
