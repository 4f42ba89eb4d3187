//! Arguments of commands that inspect the graphs of a running server.

use std::{ffi::OsString, process::ExitCode};

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::runtime::Builder;

use super::client::{Client, USUAL_URL};

/// Commands whose first argument is a [`Server`], which is optional.
const VERBS: [&str; 3] = ["record", "tap", "why"];

/// The key of a client.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct ClientKey {
    /// API key for the server.
    #[arg(
        long,
        value_name = "KEY",
        env = "GRAPHMILL_API_KEY",
        hide_env_values = true
    )]
    api_key: Option<String>,
}

impl ClientKey {
    /// Creates a client for the server at `url`.
    pub(super) fn client(&self, url: &str) -> Result<Client, String> {
        Client::new(url, self.api_key.clone())
    }
}

/// The URL and the key of a server.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Server {
    #[arg(
        value_name = "URL",
        help = "Server, at its `--management_port` if it has one [default: http://127.0.0.1:8000]"
    )]
    url: String,
    #[command(flatten)]
    key: ClientKey,
}

impl Server {
    pub(super) fn client(&self) -> Result<Client, String> {
        self.key.client(&self.url)
    }
}

/// Inserts the default server into a command line that needs one and names none, because clap has
/// no optional argument before others.
pub(super) fn add_default(arguments: &mut Vec<OsString>) {
    let verb = arguments.get(1).and_then(|verb| verb.to_str());
    let asks_for_help = |it: &OsString| it == "--help" || it == "-h";
    let names_one = |it: &OsString| it.to_str().is_some_and(is_url);
    if verb.is_some_and(|verb| VERBS.contains(&verb))
        && !arguments[2..]
            .iter()
            .any(|it| asks_for_help(it) || names_one(it))
    {
        arguments.insert(2, USUAL_URL.into());
    }
}

/// Returns true if an argument is the address of a server: a URL, or a host and a port.
pub(super) fn is_url(argument: &str) -> bool {
    let has_port = |(host, port): (&str, &str)| {
        let is_host = host == "localhost" || host.contains('.') || host.starts_with('[');
        is_host && port.parse::<u16>().is_ok()
    };
    !argument.starts_with('-')
        && (argument.contains("://") || argument.rsplit_once(':').is_some_and(has_port))
}

/// Encodes a name as a segment of a path.
pub(super) fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

/// Runs the work of a command to its end.
pub(super) fn block_on(work: impl Future<Output = Result<(), String>>) -> Result<ExitCode, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
    runtime.block_on(work).map(|()| ExitCode::SUCCESS)
}
