//! `graphmill why`: shows what the sessions of a running server wait for.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::{
    report,
    server::{Server, block_on, encoded},
};

#[derive(Debug, Args)]
#[command(
    rename_all = "snake_case",
    override_usage = "graphmill why [OPTIONS] [URL] [SESSION]"
)]
pub(super) struct WhyArguments {
    #[command(flatten)]
    server: Server,
    /// Session, as the id of its request [default: all open sessions].
    #[arg(value_name = "SESSION")]
    session: Option<String>,
}

pub(super) fn run(arguments: &WhyArguments) -> Result<ExitCode, String> {
    block_on(ask(arguments))
}

async fn ask(arguments: &WhyArguments) -> Result<(), String> {
    let client = arguments.server.client()?;
    let shown = match &arguments.session {
        Some(id) => {
            let path = format!("/v3/sessions/{}/why", encoded(id));
            let why = client.get_json(&path).await?;
            format!("{}\n", text(&why["text"]).trim_end())
        }
        None => listed(&client.get_json("/v3/sessions").await?),
    };
    report::print(&shown).map(drop)
}

/// Formats a line for each open session.
fn listed(answer: &Value) -> String {
    let sessions = answer["sessions"].as_array().into_iter().flatten();
    let line = |session: &Value| {
        let seconds = session["age_ms"].as_f64().unwrap_or_default() / 1e3;
        let is_stalled = session["stalled"] == true;
        let stalled = if is_stalled { "  stalled" } else { "" };
        let (id, graph) = (text(&session["id"]), text(&session["graph"]));
        format!(
            "{id}  {graph}  {seconds:.1} s{stalled}  {}\n",
            text(&session["why"])
        )
    };
    match sessions.map(line).collect::<String>() {
        none if none.is_empty() => "no session is open\n".to_owned(),
        lines => lines,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
