//! KServe's Open Inference Protocol, whatever carries it: requests for runs of graphs whose streams
//! carry tensors, what a graph is, and what the server counts. `proto` has its messages, which gRPC
//! sends by `codec`, prost's with bounds, and REST writes as JSON.

mod classification;
pub(crate) mod codec;
mod metadata;
mod parameters;
pub mod proto;
mod repository;
mod run;
mod sequences;
mod settings;
mod statistics;

pub(crate) use classification::WantedOutput;
pub(crate) use metadata::{
    Label, PLATFORM, asked, config, describe, describe_server, find, find_version,
    serialize_data_type, serialize_format,
};
pub(crate) use parameters::{BINARY_OUTPUT, Parameters, SequenceControl, Settings, is_set};
pub(crate) use repository::{index, load, parameters_of, state, unload};
pub(crate) use run::{
    RunRequest, available, check_version, loaded, packets, read_type, refuse_parameters, run,
};
pub use sequences::SequenceLimits;
pub(crate) use sequences::Sequences;
pub(crate) use settings::{check_traces, log_parameters, log_settings, set_log, trace_settings};
pub(crate) use statistics::Statistics;

use crate::errors::{Cause, Failure};

/// The part of a name that an error shows, in bytes.
pub(crate) const SHOWN_BYTES: usize = 100;

/// Refuses an operation with shared memory.
pub(crate) fn no_shared_memory() -> Failure {
    let why = "shared memory is not supported: tensors are sent in requests and answers";
    Failure::new(Cause::Unsupported, why)
}

/// Refuses a tensor, or what is said of one, by its place in the request.
pub(crate) fn wrong(field: impl Into<String>, why: impl std::fmt::Display) -> Failure {
    let field = field.into();
    let message = format!("`{field}`: {why}");
    Failure::new(Cause::BadRequest, message).of_field(field)
}
