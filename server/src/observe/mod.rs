//! What the server says of itself: its log, its metrics, and the id of each request.

pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod request_id;
