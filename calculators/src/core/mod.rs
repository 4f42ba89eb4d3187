//! Nodes that know nothing of what flows through them.

mod pass_through;

pub use pass_through::PassThrough;
