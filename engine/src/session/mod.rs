//! Sessions: one run of a plan, for one request.

mod shared;

pub(crate) use shared::{Message, Shared};
