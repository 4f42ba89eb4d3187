//! Models in the format ONNX, computed by tract on the CPU.
//!
//! `OnnxInferenceCalculator` runs a model in a graph; the same node reads the graphs that OpenVINO
//! Model Server writes with `OpenVINOInferenceCalculator`, whose model is then named by an
//! `OpenVINOModelServerSessionCalculator`. Only ONNX is read, not OpenVINO's own format.

mod check;
mod convert;
mod file;
mod inference;
mod load;
mod model;
mod servable_session;
mod session;

pub use file::OnnxSpec;
pub use inference::{Inference, InferenceOptions};
pub use model::{OnnxModel, try_file};
pub use servable_session::{ServableSession, ServableSessionOptions};
pub use session::{OnnxSession, OnnxSessionOptions};
