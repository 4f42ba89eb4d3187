//! Graphs without a server: packets in from a file, packets out as JSON, and what a test of a graph
//! expects of them.

pub(crate) mod difference;
pub(crate) mod expect;
pub(crate) mod line;
mod order;
pub(crate) mod play;
pub(crate) mod recording;
pub(crate) mod saved_test;
pub(crate) mod test_file;
pub(crate) mod update;
