//! `graphmill-bench compare`.

use std::path::{Path, PathBuf};

use clap::Args;
use graphmill_bench::{results::Results, servers};

use super::{
    Outcome,
    http::LoadArguments,
    rounds::{self, Contest, Entrant},
};

#[derive(Clone, Debug, Args)]
pub(super) struct Arguments {
    /// The model, a GGUF file.
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// Options of our server's LLM node, as in a graph file.
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    node_options: String,
    #[command(flatten)]
    peer: PeerArguments,
    /// How often each workload is run.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Start the server anew for each run, with nothing in its caches and no other server beside
    /// it.
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    load: LoadArguments,
}

/// The other server.
#[derive(Clone, Debug, Args)]
#[expect(
    clippy::struct_field_names,
    reason = "the names are those of the options"
)]
pub(super) struct PeerArguments {
    /// A command line that starts the other server on 127.0.0.1; `{model}` and `{port}` stand for
    /// the model's file and the port.
    #[arg(long, value_name = "COMMAND")]
    peer_cmd: Option<String>,
    /// The path at which that server answers with success once it is ready.
    #[arg(long, value_name = "PATH", default_value = "/health")]
    peer_ready: String,
    /// The other server's address up to and without `/chat/completions`, where it runs already.
    #[arg(long, value_name = "URL", conflicts_with = "peer_cmd")]
    peer_url: Option<String>,
    /// That server's process, for its processor time and memory.
    #[arg(long, value_name = "PID")]
    peer_pid: Option<u32>,
    /// The model to ask the other server for.
    #[arg(long, value_name = "NAME", default_value = servers::MODEL)]
    peer_model: String,
}

impl PeerArguments {
    /// The other server with a model, if one is given.
    pub(super) fn entrant(&self, model: &Path) -> Option<Entrant> {
        if let Some(line) = &self.peer_cmd {
            return Some(Entrant::command(
                line,
                model,
                &self.peer_ready,
                &self.peer_model,
            ));
        }
        let url = self.peer_url.as_ref()?;
        Some(Entrant::at(
            url,
            &rounds::file_name(model),
            &self.peer_model,
            self.peer_pid,
        ))
    }
}

pub(super) fn run(arguments: &Arguments, json: Option<&Path>) -> Outcome {
    let peer = arguments.peer.entrant(&arguments.model);
    let contest = Contest {
        entrants: vec![
            Entrant::own(&arguments.model, &arguments.node_options),
            peer.ok_or("neither `--peer-cmd` nor `--peer-url` is given")?,
        ],
        cases: arguments.load.cases(),
        rounds: arguments.rounds,
        restart: arguments.restart,
    };
    rounds::run(&[contest], Results::new(), json)
}
