//! Observability: the log, traces, and the id of each request.

mod audit;
pub(crate) mod log;
pub(crate) mod request_id;
pub(crate) mod trace;

pub(crate) use audit::{Audit, audit};
