//! Loads: requests over HTTP, and what comes of them.
//!
//! A [`workload`] is a [`plan`] of clients and their requests over time; [`drive`] runs it with the
//! [`client`] and records when each piece of text arrived; a [`summary`] aggregates that.

pub mod client;
pub mod drive;
pub mod plan;
pub mod random;
pub mod stats;
pub mod summary;
pub mod words;
pub mod workload;
