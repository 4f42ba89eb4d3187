//! The nodes that Graphmill ships, a file each, and the subgraphs made of them.
//!
//! A calculator talks to the outside through its ports, options and resources alone: it never
//! spawns, never reads the environment and never touches a socket.

pub mod core;
pub mod embed;
pub mod http;
pub mod llm;
pub mod payload;
mod payload_json;
mod subgraphs;
pub mod tensor;
pub mod text;
