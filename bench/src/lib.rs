//! What the measurements share.
//!
//! Of the graph engine: [`graphs`], a way to [`drive`] a session by hand, [`nodes`], [`samples`], a
//! [`report`]. Of models and the server: [`model`]s of real shapes, the [`raw`] speed of llama.cpp,
//! [`generation`] by the engine alone, [`batching`] of tensors, [`load`] over HTTP, the [`servers`]
//! that get it, and [`results`].
//!
//! Machines are shared and noisy, and noise only ever adds. So a measurement is many short samples,
//! of which the fastest says what the code costs and the median what the machine did; numbers that
//! are compared with each other are sampled in turn.

pub mod batching;
pub mod drive;
pub mod generation;
pub mod graphs;
pub mod grpc;
pub mod load;
pub mod model;
pub mod nodes;
pub mod raw;
pub mod report;
pub mod results;
pub mod samples;
pub mod servers;
pub mod tables;
