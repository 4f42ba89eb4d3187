//! The language model as a node, and as the resource that all nodes around it share.

mod calculator;
mod constraint;
mod formats;
mod generation_config;
mod generations;
mod history;
mod model;
pub(crate) mod options;
mod output_format;

pub(crate) use calculator::failed;
pub(crate) use generations::refused;

pub use calculator::{Credit, Llm, LlmPorts};
pub use constraint::{ConstraintCompiler, ConstraintPorts};
pub use generation_config::GenerationConfig;
pub use model::{LanguageModel, ModelSpec};
pub use options::{LlmOptions, PipelineType};
pub use output_format::{OutputFormat, OutputFormatPorts};
