//! Graphmill's server: graphs from a `config.json`, answered over REST.
//!
//! The binary `graphmill` is this crate's [`main`] and nothing more, and so is yours, with your own
//! nodes in it:
//!
//! ```no_run
//! // use my_nodes as _;    // the crate that registers them
//! fn main() -> std::process::ExitCode {
//!     graphmill_server::main()
//! }
//! ```
//!
//! Only this crate knows wire formats and chooses status codes. [`config`] reads what to serve, `hub`
//! gets models by name, `servable` holds the graphs, `run` opens a session on one for a request,
//! `sessions` lists those that are open, `http` has a folder for each dialect, `grpc` speaks KServe's
//! protocol over gRPC, `kserve` is what both have of it, `torchserve` is what both have of
//! TorchServe's API, `tensors` says what of a graph tensors can be, `keys` says who may do what, `site` says whose requests are taken, `listen` holds the
//! connections, `errors` is the error table, `metrics` and `observe` tell operators, and `app` puts
//! the layers around all of it, starts and stops it.

mod app;
mod beside;
mod bodies;
mod catalog;
mod cli;
pub mod config;
mod conversations;
mod errors;
mod explain;
mod file_watch;
mod grpc;
mod http;
mod http_client;
mod hub;
mod keys;
mod kserve;
mod listen;
mod metrics;
mod observe;
mod offline;
mod owner;
mod replace;
mod run;
mod servable;
mod sessions;
mod site;
mod stage;
mod tensors;
mod torchserve;

pub use app::state::Options;
pub use app::{Reloader, Server, StartError};
pub use cli::main;
pub use config::diagnostics;
pub use http::media::MediaHost;
pub use keys::{Digest, JwksSource, JwtOptions, KeyError, KeySource};
pub use kserve::SequenceLimits;
pub use kserve::proto as inference;
pub use listen::{Limits, TlsError, TlsFiles};
pub use observe::trace::{OtlpProtocol, TraceOptions};
pub use servable::ReloadPolicy;
pub use torchserve::proto as torchserve_services;

// The nodes that come with Graphmill register themselves, if only their crate is named.
use graphmill_calculators as _;
