//! What the measurements share.
//!
//! Of the graph engine: [`graphs`], a way to [`drive`] a session by hand, [`nodes`], [`samples`], a
//! [`report`]. Of models and the server: [`model`]s of real shapes, the [`raw`] speed of llama.cpp,
//! [`generation`] by the engine alone, [`batching`] of tensors, [`load`] over HTTP, the [`servers`]
//! that get it, and [`results`].
//!
//! Machines are shared and noisy, and noise only adds time. So a measurement is many short samples:
//! the fastest is the cost of the code, the median includes the noise of the machine. Figures that
//! are compared are sampled alternately.

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
