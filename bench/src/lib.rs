//! The measurements: [`cli`] is the program `graphmill-bench`.
//!
//! For measurements of the graph engine: [`graphs`], a way to [`drive`] a session by hand, [`nodes`],
//! [`samples`], a [`report`]. For all others: [`model`]s of real shapes.
//!
//! Machines are shared and noisy, and noise only adds time. So a measurement is many short samples:
//! the fastest is the cost of the code, the median includes the noise of the machine. Figures that
//! are compared are sampled alternately.

pub mod cli;
pub mod drive;
mod generation;
pub mod graphs;
mod load;
pub mod model;
pub mod nodes;
mod raw;
pub mod report;
mod results;
pub mod samples;
mod servers;

/// Result of a measurement. Its errors are only shown.
type BenchResult<T = ()> = Result<T, Box<dyn std::error::Error>>;
