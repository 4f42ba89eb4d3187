//! Runs of graphs for requests: the sender, the session and its answer, and the list of running
//! requests.
//!
//! `context` describes the sender and finds the graph, `session` opens and drives the session,
//! `tensors` feeds tensors and collects outputs, and `guard` ends waits.

mod context;
mod entry;
mod guard;
mod running;
mod session;
mod tensors;

pub(crate) use context::{RECORD, RequestContext, Runner};
pub(crate) use entry::{Facts, UNKNOWN, milliseconds};
pub(crate) use guard::Guard;
pub(crate) use running::Running;
pub(crate) use session::{Driver, GraphRun, OutputPacket};
pub(crate) use tensors::{Feeder, TIMESTAMP, Tensors};
