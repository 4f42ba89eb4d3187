//! Loads: requests over HTTP, and what comes of them.
//!
//! A [`workload`] is a [`plan`] of clients and their requests; [`drive`] runs it with the [`client`]
//! and records when each piece of text arrived; a [`summary`] aggregates that.

pub(crate) mod client;
pub(crate) mod drive;
pub(crate) mod plan;
pub(crate) mod random;
pub(crate) mod stats;
pub(crate) mod summary;
pub(crate) mod words;
pub(crate) mod workload;
