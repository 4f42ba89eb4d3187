//! `graphmill tap`: prints the packets of streams of a running graph.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Args;

use super::{
    report,
    server::{Server, block_on, encoded},
};

#[derive(Debug, Args)]
#[command(
    rename_all = "snake_case",
    override_usage = "graphmill tap [OPTIONS] [URL] <GRAPH> <STREAM>..."
)]
pub(super) struct TapArguments {
    #[command(flatten)]
    server: Server,
    /// Name of the graph, as in `/v3/graphs`.
    #[arg(value_name = "GRAPH")]
    graph: String,
    /// Streams of the graph to print.
    #[arg(value_name = "STREAM", required = true)]
    streams: Vec<String>,
    /// Session to tap [default: all].
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Share of the packets to show, from 0 to 1 [default: all].
    #[arg(long, value_name = "SHARE")]
    rate: Option<f64>,
    /// Leaves out the payloads of packets.
    #[arg(long)]
    no_payloads: bool,
}

pub(super) fn run(arguments: &TapArguments) -> Result<ExitCode, String> {
    block_on(tap(arguments))
}

/// Prints a line of JSON for each packet, until the output is closed or the server stops. Prints
/// the number of dropped packets to standard error.
async fn tap(arguments: &TapArguments) -> Result<(), String> {
    let client = arguments.server.client()?;
    let streams = arguments.streams.iter();
    let mut query: Vec<String> = streams
        .map(|stream| format!("stream={}", encoded(stream)))
        .collect();
    query.extend(
        arguments
            .session
            .iter()
            .map(|id| format!("session={}", encoded(id))),
    );
    query.extend(arguments.rate.map(|rate| format!("rate={rate}")));
    query.extend(arguments.no_payloads.then(|| "payloads=false".to_owned()));
    let graph = encoded(&arguments.graph);
    let path = format!("/v3/graphs/{graph}/tap?{}", query.join("&"));
    let mut events = client.listen(&path).await?;
    while let Some(event) = events.next().await? {
        if event.get("stream").is_none() {
            report::note(&format!("{} packets were dropped", event["count"]));
        } else if writeln!(io::stdout(), "{event}").is_err() {
            return Ok(());
        }
    }
    Ok(())
}
