//! The server and its program, over sockets and in the terminal.
//! One program, because each takes long to link. Tests that watch their whole process have one of their own.

mod cli;
mod diagnostics;
mod http;
#[cfg(all(unix, feature = "llama"))]
mod models;
mod rest;
mod serving;
