//! `graphmill-bench http`.

use std::path::{Path, PathBuf};

use clap::Args;
use graphmill_bench::{
    load::{
        summary::Limits,
        workload::{Sizes, Workload},
    },
    results::Results,
    servers,
};
use serde_json::{Map, Value};

use super::{
    Outcome,
    rounds::{self, Contest, Entrant},
    target::Case,
};

#[derive(Clone, Debug, Args)]
pub(super) struct Arguments {
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
    /// How often each workload is run.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    #[command(flatten)]
    load: LoadArguments,
}

/// What is sent.
#[derive(Clone, Debug, Args)]
pub(super) struct LoadArguments {
    /// The workloads, in order.
    #[arg(
        long = "workload",
        value_enum,
        value_delimiter = ',',
        default_value = "short"
    )]
    workloads: Vec<Workload>,
    /// Streams, chats or requests at once; several numbers run the workload with each.
    #[arg(long, value_delimiter = ',')]
    streams: Vec<usize>,
    /// Requests of each stream, turns of each chat, or requests in all where they come at random
    /// times.
    #[arg(long)]
    turns: Option<usize>,
    /// Tokens of a prompt, without what is shared.
    #[arg(long)]
    prompt_tokens: Option<usize>,
    /// Tokens of a shared system prompt.
    #[arg(long)]
    shared_tokens: Option<usize>,
    /// Tokens of an answer.
    #[arg(long)]
    max_tokens: Option<u32>,
    /// Long prompts that arrive.
    #[arg(long)]
    arrivals: Option<usize>,
    /// Tokens of a long prompt that arrives.
    #[arg(long)]
    arrival_tokens: Option<usize>,
    /// Seconds between two of them.
    #[arg(long)]
    every: Option<f64>,
    /// Requests a second of `trace`.
    #[arg(long)]
    rate: Option<f64>,
    /// Requests a second that `poisson` takes for 100 %. Without it, as many as the server answers
    /// while more of them are always waiting; our server where two are compared.
    #[arg(long)]
    capacity: Option<f64>,
    /// Milliseconds to the first token within which a request is of use.
    #[arg(long, default_value_t = LIMITS.ttft_ms)]
    ttft_limit: f64,
    /// Milliseconds for each token within which a request is of use.
    #[arg(long, default_value_t = LIMITS.tpot_ms)]
    tpot_limit: f64,
    /// Ask `completions` instead of `chat/completions`.
    #[arg(long)]
    completions: bool,
    /// A JSON object whose members are added to each request.
    #[arg(long, value_name = "JSON", value_parser = object, default_value = "{}")]
    extra: Map<String, Value>,
    /// Seed of the texts; each round has texts of its own.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// When a request is of use, unless the command line says otherwise.
pub(super) const LIMITS: Limits = Limits {
    ttft_ms: 2000.0,
    tpot_ms: 250.0,
};

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

pub(super) fn run(arguments: &Arguments, json: Option<&Path>) -> Outcome {
    let entrant = match (&arguments.serve, &arguments.base_url) {
        (Some(model), _) => Entrant::own(model, &arguments.node_options),
        (None, Some(url)) => Entrant::at(url, &arguments.model, &arguments.model, arguments.pid),
        (None, None) => return Err("neither `--base-url` nor `--serve` is given".into()),
    };
    let contest = Contest {
        entrants: vec![entrant],
        cases: arguments.load.cases(),
        rounds: arguments.rounds,
        restart: false,
    };
    rounds::run(&[contest], Results::new(), json)
}

impl LoadArguments {
    /// What is asked for, in order.
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for &workload in &self.workloads {
            let usual = workload.sizes();
            let streams = if self.streams.is_empty() {
                &[usual.streams][..]
            } else {
                &self.streams
            };
            cases.extend(streams.iter().map(|&streams| Case {
                workload,
                label: String::new(),
                sizes: Sizes {
                    streams,
                    turns: self.turns.unwrap_or(usual.turns),
                    prompt_tokens: self.prompt_tokens.unwrap_or(usual.prompt_tokens),
                    shared_tokens: self.shared_tokens.unwrap_or(usual.shared_tokens),
                    max_tokens: self.max_tokens.unwrap_or(usual.max_tokens),
                    arrivals: self.arrivals.unwrap_or(usual.arrivals),
                    arrival_tokens: self.arrival_tokens.unwrap_or(usual.arrival_tokens),
                    every: self.every.unwrap_or(usual.every),
                    rate: self.rate.unwrap_or(usual.rate),
                },
                limits: Limits {
                    ttft_ms: self.ttft_limit,
                    tpot_ms: self.tpot_limit,
                },
                capacity: self.capacity,
                completions: self.completions,
                extra: self.extra.clone(),
                seed: self.seed,
            }));
        }
        cases
    }
}
