//! Graphs without a server: input packets from a file, output packets as JSON, and tests of graphs.

pub(crate) mod difference;
pub(crate) mod expect;
pub(crate) mod line;
mod order;
pub(crate) mod play;
pub(crate) mod recording;
pub(crate) mod saved_test;
pub(crate) mod test_file;
pub(crate) mod update;
