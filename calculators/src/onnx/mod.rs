//! Models in the format ONNX, computed on the CPU by tract, or by ONNX Runtime where a graph asks for
//! it (the feature `onnxruntime`).
//!
//! `OnnxInferenceCalculator` runs a model in a graph; the same node reads the graphs that OpenVINO
//! Model Server writes with `OpenVINOInferenceCalculator`, whose model is then named by an
//! `OpenVINOModelServerSessionCalculator`. Only ONNX is read, not OpenVINO's own format.

mod check;
mod compute;
mod file;
mod inference;
mod model;
#[cfg(feature = "onnxruntime")]
mod onnx_runtime;
mod runtime;
mod servable_session;
mod session;
mod signature;
mod tract;

pub use file::OnnxSpec;
pub use inference::{Inference, InferenceOptions};
pub use model::{OnnxModel, TRIALS};
#[cfg(feature = "onnxruntime")]
pub use onnx_runtime::{LIBRARY_VARIABLE, use_library};
pub use runtime::Runtime;
pub use servable_session::{ServableSession, ServableSessionOptions};
pub use session::{OnnxSession, OnnxSessionOptions};
pub use signature::signature;
