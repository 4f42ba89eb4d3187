//! One run of a graph for a request: who asks, the session, and its answer; and the list of all
//! requests that are being answered.
//!
//! `context` says who asks, `runner` finds the graph, `session` opens and drives the session,
//! `answer` and `inference` are its two kinds of answers, and `guard` ends waits.

mod answer;
mod context;
mod entry;
mod feeder;
mod guard;
mod inference;
mod runner;
mod running;
mod session;

pub(crate) use answer::Answer;
pub(crate) use context::RequestContext;
pub(crate) use entry::{Entry, Facts, milliseconds};
pub(crate) use feeder::{Feeder, TIMESTAMP};
pub(crate) use guard::Guard;
pub(crate) use inference::{Inference, Tensors, takes_tensors};
pub(crate) use runner::{RECORD, Runner};
pub(crate) use running::Running;
pub(crate) use session::{Driver, OutputPacket};

use running::Listing;
use session::{Run, RunOptions};
