//! The requests that are being answered: the session of each, and the list of all.

mod answer;
mod running;

pub(crate) use answer::{Answer, RequestInfo, Trace};
pub(crate) use running::{Listed, Running};
