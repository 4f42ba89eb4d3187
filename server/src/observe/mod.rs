//! What the server says of itself on standard error: its log, and one line for each request.

pub(crate) mod access;
pub(crate) mod files;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod request_id;
