//! What the measurements of the engine share: graphs, a way to drive a session by hand, and a table of results.
//!
//! Machines are shared and noisy, and noise only ever adds. So a measurement is many short samples, of which the fastest
//! says what the code costs and the median what the machine did; numbers that are compared with each other are sampled in
//! turn.

pub mod drive;
pub mod graphs;
pub mod nodes;
pub mod report;
pub mod samples;
