//! KServe's Open Inference Protocol, independent of the transport: runs of graphs whose streams
//! carry tensors, metadata of graphs, and statistics. `proto` has its messages. gRPC sends them
//! with `codec`, and REST writes them as JSON.

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
pub(crate) use parameters::{
    BINARY_OUTPUT, ParameterMap, SequenceControl, Settings, is_set, take_count,
};
pub(crate) use repository::{index, load, parameters_of, state, unload};
pub(crate) use run::{
    RunRequest, available, check_version, loaded, packets, read_type, refuse_parameters, run,
};
pub use sequences::SequenceLimits;
pub(crate) use sequences::Sequences;
pub(crate) use settings::{check_traces, log_parameters, log_settings, set_log, trace_settings};
pub(crate) use statistics::Statistics;

use std::fmt::Display;

use crate::errors::{Cause, Failure};

/// Maximum length in bytes of a name in an error.
pub(crate) const SHOWN_BYTES: usize = 100;

/// Returns the failure for an operation with shared memory.
pub(crate) fn no_shared_memory() -> Failure {
    let why = "shared memory is not supported: send tensors in requests";
    Failure::new(Cause::Unsupported, why)
}

/// Creates the failure for a wrong field of a request.
pub(crate) fn wrong(field: impl Into<String>, why: impl Display) -> Failure {
    refused(Cause::BadRequest, field, why)
}

/// Creates the failure for a field that asks for something that is not supported.
fn unsupported(field: impl Into<String>, why: impl Display) -> Failure {
    refused(Cause::Unsupported, field, why)
}

fn refused(cause: Cause, field: impl Into<String>, why: impl Display) -> Failure {
    let field = field.into();
    let message = format!("`{field}`: {why}");
    Failure::new(cause, message).with_field(field)
}
