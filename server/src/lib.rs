//! Graphmill's server: graphs from a `config.json`, answered over REST.
//!
//! The binary `graphmill` only calls this crate's [`main`]. A program of your own does the same,
//! with your nodes in it:
//!
//! ```no_run
//! // use my_nodes as _;    // the crate that registers them
//! fn main() -> std::process::ExitCode {
//!     graphmill_server::main()
//! }
//! ```
//!
//! Only this crate knows wire formats and chooses status codes.
//!
//! [`config`] reads the graphs to serve, `hub` downloads models by name, `servable` holds the
//! loaded graphs, `run` opens a session for a request, and `sessions` lists open sessions. `http`
//! has a folder for each dialect, and `grpc` serves KServe's protocol over gRPC. `kserve` and
//! `torchserve` have the parts of these APIs that REST and gRPC share. `tensors` maps tensors to
//! the streams of graphs. `keys` checks permissions and limits, `site` checks hosts and origins,
//! and `listen` manages connections. `errors` is the error table, and `metrics` and `observe` are
//! for operators. `app` builds, starts and stops the server.

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
mod offline;
mod origin_checks;
mod owner;
mod replace;
mod run;
mod servable;
mod sessions;
mod shutdown;
mod telemetry;
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
pub use servable::ReloadPolicy;
pub use telemetry::trace::{OtlpProtocol, TraceOptions};
pub use torchserve::proto as torchserve_services;

// Nodes of these crates register themselves if the crates are linked, which needs their names.
use graphmill_calculators as _;
use graphmill_mediapipe as _;
