//! `graphmill-bench http` and `graphmill-bench compare`.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use serde_json::{Map, Value};

use super::{
    BenchResult,
    contest::{Contest, Entrant},
    seconds,
};
use crate::{
    load::workload::{Sizes, Workload},
    results::Results,
    servers::{self, Origin},
};

#[derive(Clone, Debug, Args)]
pub(super) struct HttpArguments {
    /// A running server's address up to and without `/chat/completions`.
    #[arg(
        long,
        value_name = "URL",
        required_unless_present = "serve",
        conflicts_with = "serve"
    )]
    base_url: Option<String>,
    /// The model to ask that server for.
    #[arg(long, value_name = "NAME", default_value = servers::MODEL)]
    model: String,
    /// That server's process, for its processor time and memory.
    #[arg(long)]
    pid: Option<u32>,
    /// Start our server with this model instead.
    #[arg(long, value_name = "FILE")]
    serve: Option<PathBuf>,
    /// Options of our server's LLM node, as in a graph file.
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    node_options: String,
    /// Number of runs of each workload.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    #[command(flatten)]
    load: LoadArguments,
}

#[derive(Clone, Debug, Args)]
pub(super) struct CompareArguments {
    /// The model, a GGUF file.
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// Options of our server's LLM node, as in a graph file.
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    node_options: String,
    /// A command line that starts the other server on 127.0.0.1; `{model}` and `{port}` stand for
    /// the model's file and the port.
    #[arg(long, value_name = "COMMAND", required_unless_present = "peer_url")]
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
    /// Number of runs of each workload.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Start the server anew for each run, with nothing in its caches and no other server beside
    /// it.
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    load: LoadArguments,
}

/// Sizes and order of the requests.
#[derive(Clone, Debug, Args)]
struct LoadArguments {
    /// The workloads, in the order in which they run.
    #[arg(
        long = "workload",
        value_enum,
        value_delimiter = ',',
        default_value = "short"
    )]
    workloads: Vec<Workload>,
    /// Number of concurrent streams, chats or requests; with several numbers, the workload runs
    /// with each of them.
    #[arg(long, value_delimiter = ',')]
    streams: Vec<usize>,
    /// Number of requests of each stream, or of turns of each chat.
    #[arg(long)]
    turns: Option<usize>,
    /// Number of tokens in a prompt without its shared part.
    #[arg(long)]
    prompt_tokens: Option<usize>,
    /// Number of tokens in a shared system prompt.
    #[arg(long)]
    shared_tokens: Option<usize>,
    /// Maximum number of tokens in an answer.
    #[arg(long)]
    max_tokens: Option<u32>,
    /// Number of long prompts that arrive while streams decode.
    #[arg(long)]
    arrivals: Option<usize>,
    /// Number of tokens in a long prompt that arrives.
    #[arg(long)]
    arrival_tokens: Option<usize>,
    /// Time between two long prompts in seconds.
    #[arg(long, value_parser = seconds)]
    every: Option<Duration>,
    /// A JSON object whose members are added to each request.
    #[arg(long, value_name = "JSON", value_parser = object, default_value = "{}")]
    extra: Map<String, Value>,
    /// Seed of the texts; each round has texts of its own.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

impl LoadArguments {
    fn contest(&self, entrants: Vec<Entrant>, rounds: usize) -> Contest {
        Contest {
            entrants,
            loads: self.loads(),
            rounds,
            restart: false,
            extra: self.extra.clone(),
            seed: self.seed,
        }
    }

    /// Returns the loads in order, each with its name in results.
    fn loads(&self) -> Vec<(String, Sizes)> {
        let mut loads = Vec::new();
        for &workload in &self.workloads {
            let usual = workload.sizes();
            let sizes = Sizes {
                turns: self.turns.unwrap_or(usual.turns),
                prompt_tokens: self.prompt_tokens.unwrap_or(usual.prompt_tokens),
                shared_tokens: self.shared_tokens.unwrap_or(usual.shared_tokens),
                max_tokens: self.max_tokens.unwrap_or(usual.max_tokens),
                arrivals: self.arrivals.unwrap_or(usual.arrivals),
                arrival_tokens: self.arrival_tokens.unwrap_or(usual.arrival_tokens),
                every: self.every.unwrap_or(usual.every),
                ..usual
            };
            let usual = [usual.streams];
            let streams = match self.streams.as_slice() {
                [] => &usual,
                given => given,
            };
            loads.extend(streams.iter().map(|&streams| {
                let name = format!("{} {streams}", workload.name());
                (name, Sizes { streams, ..sizes })
            }));
        }
        loads
    }
}

pub(super) fn http(arguments: &HttpArguments, results: &mut Results) -> BenchResult {
    let entrant = match (&arguments.serve, &arguments.base_url) {
        (Some(model), _) => Entrant::own(model, &arguments.node_options),
        (None, url) => Entrant {
            origin: Origin::Running {
                url: url.clone().unwrap_or_default(),
                process: arguments.pid,
            },
            model: arguments.model.clone(),
        },
    };
    let contest = arguments.load.contest(vec![entrant], arguments.rounds);
    contest.run(results)
}

pub(super) fn compare(arguments: &CompareArguments, results: &mut Results) -> BenchResult {
    let origin = match &arguments.peer_cmd {
        Some(line) => Origin::Command {
            line: line.clone(),
            model: arguments.model.clone(),
            ready_path: arguments.peer_ready.clone(),
        },
        None => Origin::Running {
            url: arguments.peer_url.clone().unwrap_or_default(),
            process: arguments.peer_pid,
        },
    };
    let peer = Entrant {
        origin,
        model: arguments.peer_model.clone(),
    };
    let own = Entrant::own(&arguments.model, &arguments.node_options);
    let contest = Contest {
        restart: arguments.restart,
        ..arguments.load.contest(vec![own, peer], arguments.rounds)
    };
    contest.run(results)
}
