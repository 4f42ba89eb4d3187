//! KServe's Open Inference Protocol, whatever carries it: a run of a graph whose streams carry
//! tensors, what a graph is, and what the server counts. REST and gRPC read and write its forms.

mod inference;
mod inputs;
mod metadata;
mod parameters;
mod repository;
mod run;
mod sequence_control;
mod sequences;
mod settings;
mod statistics;

pub(crate) use inference::Inference;
pub(crate) use inputs::{Feeder, packets, takes_tensors};
pub(crate) use metadata::{EXTENSIONS, Label, Metadata, NAME, PLATFORM, versioned};
pub(crate) use parameters::{BINARY_OUTPUT, Parameter, Parameters, Settings};
pub(crate) use repository::{index, load, unload};
pub(crate) use run::{RunRequest, run};
pub(crate) use sequence_control::SequenceControl;
pub use sequences::SequenceLimits;
pub(crate) use sequences::{Sequence, Sequences};
pub(crate) use settings::{LogSetting, log_settings, refuse_settings, trace_settings};
pub(crate) use statistics::{GraphCounts, Statistics, Times};

use graphmill_calculators::tensor::Tensor;

use crate::errors::{Cause, Failure};

/// What an operation with shared memory is refused with.
pub(crate) fn no_shared_memory() -> Failure {
    let why = "shared memory is not supported: tensors are sent in requests and answers";
    Failure::new(Cause::Unsupported, why)
}

/// Tensors by the names of their streams.
pub(crate) type Tensors = Vec<(String, Tensor)>;

/// Refuses a tensor, or what is said of one, by its place in the request.
pub(crate) fn wrong(field: String, why: impl std::fmt::Display) -> Failure {
    let message = format!("`{field}`: {why}");
    Failure::new(Cause::BadRequest, message).of_field(field)
}
