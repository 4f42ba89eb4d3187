//! `graphmill record`: records the next sessions of a running graph to files.

use std::{collections::BTreeSet, fs, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, value_parser};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    client::Client,
    report,
    server::{Server, block_on, encoded},
};

/// Interval between requests for the list of finished sessions.
const ASK_EVERY: Duration = Duration::from_millis(300);

#[derive(Debug, Args)]
#[command(
    rename_all = "snake_case",
    override_usage = "graphmill record [OPTIONS] [URL] <GRAPH>"
)]
pub(super) struct RecordArguments {
    #[command(flatten)]
    server: Server,
    /// Name of the graph, as in `/v3/graphs`.
    #[arg(value_name = "GRAPH")]
    graph: String,
    /// Folder for the files, one for each session, named by its id with `.jsonl`.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    output: PathBuf,
    /// Number of sessions to record.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = value_parser!(u64).range(1..=64))]
    sessions: u64,
    /// Seconds to wait for sessions to begin.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Share of the sessions to record, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    rate: f64,
}

pub(super) fn run(arguments: &RecordArguments) -> Result<ExitCode, String> {
    block_on(record(arguments))
}

async fn record(arguments: &RecordArguments) -> Result<(), String> {
    let client = arguments.server.client()?;
    fs::create_dir_all(&arguments.output)
        .map_err(|error| format!("cannot write to `{}`: {error}", arguments.output.display()))?;
    let path = format!("/v3/graphs/{}/recording", encoded(&arguments.graph));
    let before: BTreeSet<String> = ids(&client.get_json(&path).await?, |_| true);
    let asked = json!({
        "payloads": true,
        "sessions": arguments.sessions,
        "seconds": arguments.seconds,
        "rate": arguments.rate,
    });
    client.post_json(&path, &asked).await?;
    report::note(&format!(
        "recording the next sessions of `{}`: {}, within {} s",
        arguments.graph, arguments.sessions, arguments.seconds
    ));
    let written = tokio::select! {
        written = collect(&client, &path, arguments, before) => written,
        interrupted = tokio::signal::ctrl_c() => match interrupted {
            Ok(()) => Err("interrupted".to_owned()),
            Err(error) => Err(format!("cannot listen for signals: {error}")),
        },
    };
    // A server that has stopped does not record any more.
    let _ = client.delete(&path).await;
    match written? {
        0 => Err(format!(
            "no session of `{}` ended in this time",
            arguments.graph
        )),
        _ => Ok(()),
    }
}

/// Writes finished sessions until there are enough or no more can come. Returns their number.
async fn collect(
    client: &Client,
    path: &str,
    arguments: &RecordArguments,
    mut seen: BTreeSet<String>,
) -> Result<u64, String> {
    let last = Instant::now() + Duration::from_secs(arguments.seconds);
    let mut written = 0;
    loop {
        let listed = client.get_json(path).await?;
        for id in ids(&listed, |recording| recording["state"] == "ended") {
            if seen.insert(id.clone()) {
                save(client, arguments, &id).await?;
                written += 1;
            }
        }
        let open = ids(&listed, |recording| recording["state"] == "open");
        if written >= arguments.sessions || (Instant::now() > last && open.is_empty()) {
            return Ok(written);
        }
        sleep(ASK_EVERY).await;
    }
}

async fn save(client: &Client, arguments: &RecordArguments, id: &str) -> Result<(), String> {
    let path = format!("/v3/sessions/{}/recording", encoded(id));
    let lines = client.get(&path).await?;
    // A client may have chosen the id, so it may contain any character.
    let is_plain = |it: &char| it.is_ascii_alphanumeric() || "-_~".contains(*it);
    let name: String = id.chars().filter(is_plain).collect();
    let file = arguments.output.join(format!("{name}.jsonl"));
    let shown = file.display();
    fs::write(&file, lines).map_err(|error| format!("cannot write `{shown}`: {error}"))?;
    report::note(&format!("wrote {shown}"));
    Ok(())
}

/// Returns the ids of the listed recordings that `which` selects.
fn ids(listed: &Value, which: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    let recordings = listed["recordings"].as_array().into_iter().flatten();
    let chosen = recordings.filter(|recording| which(recording));
    let ids = chosen.filter_map(|recording| recording["id"].as_str());
    ids.map(str::to_owned).collect()
}
