//! `graphmill-bench http`, and how a load is sent to a server.

use std::{
    path::{Path, PathBuf},
    thread::available_parallelism,
    time::Duration,
};

use clap::Args;
use graphmill_bench::{
    load::{
        client::Target,
        drive,
        summary::{Limits, Summary},
        words::Measure,
        workload::{Sizes, Workload},
    },
    results::{Results, Run},
    servers::{self, Server},
    tables,
};
use reqwest::Client;
use serde_json::{Map, Value};

use super::{Outcome, note, print};

/// How often a server is asked for its cells during a load.
const WATCH_EVERY: Duration = Duration::from_millis(500);

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
    pub(super) workloads: Vec<Workload>,
    /// How often each is run.
    #[arg(long, default_value_t = 1)]
    pub(super) rounds: usize,
    /// Streams, chats or requests at once; several numbers run the workload with each.
    #[arg(long, value_delimiter = ',')]
    pub(super) streams: Vec<usize>,
    /// Requests of each stream, turns of each chat, or requests in all where they come at random times.
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
    /// Requests a second that `poisson` takes for 100 %; measured without it.
    #[arg(long)]
    capacity: Option<f64>,
    /// Milliseconds to the first token within which a request is of use.
    #[arg(long, default_value_t = 2000.0)]
    ttft_limit: f64,
    /// Milliseconds for each token within which a request is of use.
    #[arg(long, default_value_t = 250.0)]
    tpot_limit: f64,
    /// Ask `completions` instead of `chat/completions`.
    #[arg(long)]
    completions: bool,
    /// A JSON object whose members are added to each request.
    #[arg(long, value_name = "JSON", value_parser = object, default_value = "{}")]
    extra: Map<String, Value>,
    /// Seed of the texts; each round has texts of its own.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

pub(super) fn run(arguments: &Arguments, json: Option<&Path>) -> Outcome {
    let mut results = Results::new();
    runtime()?.block_on(load(arguments, &mut results))?;
    print(&tables::runs(&results.runs));
    json.map_or(Ok(()), |path| results.save(path))?;
    Ok(())
}

/// One thread: the load generator is to leave the processors to the server.
pub(super) fn runtime() -> Outcome<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

async fn load(arguments: &Arguments, results: &mut Results) -> Outcome {
    let client = Client::new();
    let (server, model) = match (&arguments.serve, &arguments.base_url) {
        (Some(model), _) => {
            let server = Server::own(
                &servers::own_program()?,
                model,
                &arguments.node_options,
                &client,
            )
            .await?;
            (server, file_name(model))
        }
        (None, Some(url)) => (Server::at(url, arguments.pid), arguments.model.clone()),
        (None, None) => return Err("neither `--base-url` nor `--serve` is given".into()),
    };
    let load = &arguments.load;
    let site = Site::new(client, server, &arguments.model, load).await?;
    for round in 0..load.rounds {
        for case in load.cases() {
            for (name, summary) in site.run(&case, round, None).await? {
                results.runs.push(Run {
                    server: site.server.name.clone(),
                    model: model.clone(),
                    load: name,
                    round,
                    summary,
                });
            }
        }
    }
    Ok(())
}

/// A file's name as text.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// A workload with its sizes.
#[derive(Clone, Debug)]
pub(super) struct Case {
    workload: Workload,
    sizes: Sizes,
    limits: Limits,
    /// Requests a second that are 100 % of an open loop; measured if it is not known.
    capacity: Option<f64>,
    seed: u64,
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
                seed: self.seed,
            }));
        }
        cases
    }
}

impl Case {
    fn name(&self) -> String {
        let name = self.workload.name();
        match self.workload {
            Workload::Trace => format!("{name} {}/s", self.sizes.rate),
            Workload::LivePrefix | Workload::Poisson => name,
            _ => format!("{name} {}", self.sizes.streams),
        }
    }
}

/// A server, and how to ask it.
pub(super) struct Site {
    client: Client,
    pub(super) server: Server,
    target: Target,
    measure: Measure,
}

impl Site {
    /// Asks the server for two tokens, to learn how long words are in tokens. That warms it up too.
    pub(super) async fn new(
        client: Client,
        server: Server,
        model: &str,
        load: &LoadArguments,
    ) -> Outcome<Self> {
        let target = Target {
            base_url: server.base_url.clone(),
            model: model.to_owned(),
            completions: load.completions,
            extra: load.extra.clone(),
        };
        let measure = drive::measure(&client, &target).await;
        let measure =
            measure.map_err(|error| format!("{} does not answer: {error}", server.base_url))?;
        Ok(Self {
            client,
            server,
            target,
            measure,
        })
    }

    /// Runs a case; each part of it with its name. `idle` is a server that should do nothing meanwhile.
    pub(super) async fn run(
        &self,
        case: &Case,
        round: usize,
        idle: Option<&Server>,
    ) -> Outcome<Vec<(String, Summary)>> {
        if case.workload != Workload::Poisson {
            return Ok(vec![(
                case.name(),
                self.once(case, case.workload, case.sizes, round, idle)
                    .await,
            )]);
        }
        let capacity = match case.capacity {
            Some(capacity) => capacity,
            None => self.capacity(case, round).await?,
        };
        let mut parts = Vec::new();
        for percent in [50, 80, 120] {
            let sizes = Sizes {
                rate: capacity * f64::from(percent) / 100.0,
                ..case.sizes
            };
            // Texts of its own for each share.
            let seeded = Case {
                seed: case.seed + 1000 * percent as u64,
                ..case.clone()
            };
            let summary = self
                .once(&seeded, Workload::Poisson, sizes, round, idle)
                .await;
            parts.push((format!("poisson {percent} % of {capacity:.2}/s"), summary));
        }
        Ok(parts)
    }

    /// Requests a second that the server can bear: as many as it answers when there are always some waiting.
    pub(super) async fn capacity(&self, case: &Case, round: usize) -> Outcome<f64> {
        let sizes = Sizes {
            turns: 2,
            ..case.sizes
        };
        let summary = self.once(case, Workload::Short, sizes, round, None).await;
        if summary.failed() > 0 {
            return Err(format!("the capacity cannot be measured: {:?}", summary.errors).into());
        }
        Ok(summary.requests as f64 / summary.seconds)
    }

    async fn once(
        &self,
        case: &Case,
        workload: Workload,
        sizes: Sizes,
        round: usize,
        idle: Option<&Server>,
    ) -> Summary {
        let plan = workload.plan(&sizes, self.measure, case.seed + round as u64);
        let before = (
            servers::own_processor_seconds(),
            self.server.processor_seconds(),
            idle.and_then(Server::processor_seconds),
        );
        let mut cells = None;
        let watch = async {
            loop {
                cells = cells.max(self.server.kv_cells(&self.client).await);
                tokio::time::sleep(WATCH_EVERY).await;
            }
        };
        let (samples, seconds) = tokio::select! {
            outcome = drive::run(&self.client, &self.target, &plan) => outcome,
            () = watch => unreachable!("it watches until the load ends"),
        };
        let mut summary = Summary::of(&samples, seconds, case.limits);
        let processors = available_parallelism().map_or(1, usize::from) as f64;
        let since = |now: Option<f64>, before: Option<f64>| Some(now? - before?);
        summary.cost.generator_share =
            (servers::own_processor_seconds() - before.0) / seconds / processors;
        summary.cost.server_seconds = since(self.server.processor_seconds(), before.1);
        summary.cost.idle_server_seconds =
            since(idle.and_then(Server::processor_seconds), before.2);
        summary.cost.server_peak_mib = self.server.peak_mib();
        summary.cost.kv_cells = cells;
        note(&format!(
            "{} {} round {round}: {:.1} tok/s, TTFT p50 {:.0} ms, ITL p99 {:.0} ms, {} of {} failed, generator {:.1} %",
            self.server.name,
            case.name(),
            summary.tokens_per_second,
            summary.ttft_ms.p50,
            summary.itl_ms.p99,
            summary.failed(),
            summary.requests,
            100.0 * summary.cost.generator_share,
        ));
        summary
    }
}
