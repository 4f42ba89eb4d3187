//! Dynamic batching: tensors of several requests are computed together, as Triton does it.
//!
//! ```text
//! session ─► DynamicBatch ─┐                        ┌─► instance 1 ─► model
//! session ─► DynamicBatch ─┼─► Batcher: queue ──────┤
//! session ─► DynamicBatch ─┘   (levels, timeouts)   └─► instance 2 ─► model
//! ```
//!
//! [`Batcher`] is the resource: a queue, the threads that compute, and a thread that refuses requests
//! in time while those are busy. What is computed when is decided by plain data in `schedule`.

mod batcher;
mod compute;
mod container;
mod graph;
mod measure;
mod node;
mod options;
mod rows;
mod schedule;
mod shared;
mod source;

pub use batcher::{Batcher, RequestScheduling};
pub use container::{DynamicBatchContainer, NodeMessage};
pub use graph::{NodeModel, NodeModelOptions, NodeModelSpec};
pub use measure::{BatcherInfo, BatcherMeasurements};
pub use node::DynamicBatch;
pub use options::{
    Batching, BatchingLevel, DynamicBatchOptions, InputDescription, LevelPolicy, MAX_INSTANCES,
    PadValue, QueuePolicy, RaggedPolicy, TimeoutAction,
};
pub use shared::{Answer, Pending};
pub use source::{BatchedModel, BatcherSpec};
