//! Graphmill's server: graphs from a `config.json`, answered over REST.
//!
//! The binary `graphmill` is this crate's [`main`] and nothing more, and so is yours, with your own nodes in it:
//!
//! ```no_run
//! // use my_nodes as _;    // the crate that registers them
//! fn main() -> std::process::ExitCode {
//!     graphmill_server::main()
//! }
//! ```
//!
//! In this crate, and only here, wire formats and status codes are known. [`config`] reads what to serve, `servable` holds the
//! graphs and opens their sessions, `http` has a folder for each dialect, `stack` puts the layers around it, `site` says whose
//! requests are taken, `listen` holds the connections, `rescue` is the error table, and `app` builds everything.

mod app;
mod cli;
pub mod config;
pub mod diagnostics;
mod http;
mod listen;
mod observe;
mod offline;
mod rescue;
mod servable;
mod site;
mod stack;

pub use app::{Options, Server, StartError};
pub use cli::main;
pub use listen::Limits;

// The nodes that come with Graphmill register themselves, if only their crate is named.
use graphmill_calculators as _;
