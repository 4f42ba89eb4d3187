//! Loads: requests over HTTP, and what comes of them.
//!
//! A [`workload`] is a [`plan`] of who asks what and when; [`drive`] carries it out with the
//! [`client`] and notes when each piece of text came; a [`summary`] says what that amounts to.

pub mod client;
pub mod drive;
pub mod plan;
pub mod random;
pub mod stats;
pub mod summary;
pub mod words;
pub mod workload;
