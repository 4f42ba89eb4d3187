//! What files of models do to a server: none ends it.

#![cfg(all(unix, feature = "llama"))]

mod changed;
mod damaged;
mod fuzz;
mod gguf;
mod server;
#[path = "../serving/mod.rs"]
mod serving;
