//! KServe's Open Inference Protocol, whatever carries it: requests for runs of graphs whose streams
//! carry tensors, what a graph is, and what the server counts. REST and gRPC read and write its
//! forms.

mod inputs;
mod metadata;
mod parameters;
mod repository;
mod run;
mod sequence_control;
mod sequences;
mod settings;
mod statistics;

pub(crate) use inputs::packets;
pub(crate) use metadata::{EXTENSIONS, Label, Metadata, NAME, PLATFORM, find, find_version};
pub(crate) use parameters::{BINARY_OUTPUT, Parameter, Parameters, Settings, check_of_tensor};
pub(crate) use repository::{index, load, state, unload};
pub(crate) use run::{RunRequest, available, open, run};
pub(crate) use sequence_control::SequenceControl;
pub use sequences::SequenceLimits;
pub(crate) use sequences::{Sequence, Sequences};
pub(crate) use settings::{LogSetting, log_settings, refuse_settings, trace_settings};
pub(crate) use statistics::{GraphCounts, Statistics, Times};

use crate::errors::{Cause, Failure};

/// What an operation with shared memory is refused with.
pub(crate) fn no_shared_memory() -> Failure {
    let why = "shared memory is not supported: tensors are sent in requests and answers";
    Failure::new(Cause::Unsupported, why)
}

/// Refuses a tensor, or what is said of one, by its place in the request.
pub(crate) fn wrong(field: String, why: impl std::fmt::Display) -> Failure {
    let message = format!("`{field}`: {why}");
    Failure::new(Cause::BadRequest, message).of_field(field)
}
