//! `graphmill top`: the activity of a server, from its status and its metrics.

mod sample;
mod table;

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, value_parser};
use tokio::time::sleep;

use super::{
    client::USUAL_URL,
    server::{ClientKey, block_on},
};
use sample::Sample;

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct TopArguments {
    /// Server, at its `--management_port` if it has one.
    #[arg(value_name = "URL", default_value = USUAL_URL)]
    url: String,
    /// Prints one table, averaged over one interval, and exits.
    #[arg(long)]
    once: bool,
    /// Seconds between two updates; rates are averages over them.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = value_parser!(u64).range(1..=3_600))]
    interval: u64,
    #[command(flatten)]
    key: ClientKey,
}

/// Escape sequence that clears the terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";

pub(super) fn run(arguments: &TopArguments) -> Result<ExitCode, String> {
    block_on(watch(arguments))
}

/// Prints tables until nobody reads them, or once. If the server stops answering, it shows the
/// error and tries again. If it never answered, that is an error.
async fn watch(arguments: &TopArguments) -> Result<(), String> {
    let client = arguments.key.client(&arguments.url)?;
    let mut before = Sample::take(&client).await?;
    let is_screen = io::stdout().is_terminal() && !arguments.once;
    let start = if is_screen { CLEAR } else { "" };
    loop {
        sleep(Duration::from_secs(arguments.interval)).await;
        let shown = match Sample::take(&client).await {
            Ok(now) => {
                let shown = table::format(&now, &before, client.url());
                before = now;
                shown
            }
            Err(message) if arguments.once => return Err(message),
            Err(message) => format!("{message}\n"),
        };
        let mut output = io::stdout();
        let written = write!(output, "{start}{shown}").and_then(|()| output.flush());
        if arguments.once || written.is_err() {
            return Ok(());
        }
    }
}
