//! Fields of requests, by endpoint, each declared once.
//!
//! A body is scanned ([`JsonBody`](json::JsonBody)), its fields are checked against the schemas of
//! their endpoint ([`Fields::read`]), and structs take their values ([`Fields::take`]). The same
//! schemas are the documentation.

pub mod bodies;
pub mod error;
pub mod json;
pub mod limits;
mod read;
pub mod schema;

pub use read::{Fields, asks_for_nothing};
