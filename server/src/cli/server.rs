//! A running server, for the commands that look into its graphs.

use std::process::ExitCode;

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::runtime::Builder;

use super::{client::Client, report};

/// The server, and how it is asked.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Server {
    /// The server; its `--management_port`, if it has one.
    #[arg(value_name = "URL")]
    url: String,
    /// The key that the server asks for.
    #[arg(
        long,
        value_name = "KEY",
        env = "GRAPHMILL_API_KEY",
        hide_env_values = true
    )]
    api_key: Option<String>,
}

impl Server {
    pub(super) fn client(&self) -> Result<Client, String> {
        Client::new(&self.url, self.api_key.clone())
    }
}

/// A name as a part of a path.
pub(super) fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

/// Runs what a command does to its end.
pub(super) fn block_on(work: impl Future<Output = Result<(), String>>) -> ExitCode {
    let done = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => Err(format!("cannot start threads: {error}")),
    };
    report::exit_code(done.map(|()| ExitCode::SUCCESS))
}
