//! Figures of a prefix cache, for the status of its engine.

use serde::Serialize;

/// Figures of a prefix cache: its lookups, and its content in host memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PrefixStatus {
    /// Prompt tokens that were looked up, each prompt once.
    pub queries: u64,
    /// Prompt tokens that were found, and so not computed.
    pub hits: u64,
    /// Tokens of finished sequences whose cells are kept in host memory.
    pub tokens: u64,
    /// Size of these cells in host memory, in bytes.
    pub bytes: u64,
    /// Tokens whose cells were dropped from host memory to keep its limit.
    pub evicted: u64,
    /// Checkpoints in host memory. Models with recurrent layers or sliding windows need them
    /// besides cells.
    pub checkpoints: CheckpointStatus,
}

/// Figures of the checkpoints of a prefix cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckpointStatus {
    /// Number of checkpoints in host memory.
    pub count: u64,
    /// Size of these checkpoints, in bytes.
    pub bytes: u64,
    /// Number of sequences that continued from a checkpoint.
    pub hits: u64,
    /// Number of checkpoints that were dropped to keep their limit.
    pub dropped: u64,
}
