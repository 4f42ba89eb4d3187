//! The nodes that Graphmill ships, a file each, and the subgraphs made of them.
//!
//! A calculator talks to the outside through its ports, options and resources alone: it never
//! spawns, never reads the environment and never touches a socket.

pub mod core;
pub mod embed;
pub mod http;
#[cfg(feature = "image")]
pub mod image;
pub mod llm;
#[cfg(feature = "onnx")]
pub mod onnx;
pub mod payload;
mod payload_json;
mod subgraphs;
pub mod tensor;
pub mod text;
