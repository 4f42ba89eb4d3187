//! Servers that get the same loads in turn.

use std::{path::Path, thread::available_parallelism};

use reqwest::Client;
use rustls::crypto::ring;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::{BenchResult, note};
use crate::{
    load::{
        client::Target,
        drive::{self, Sample},
        plan::{Actor, plan},
        summary::{errors, summary, while_arriving},
        words::Measure,
        workload::Sizes,
    },
    results::{Results, Row, medians, ratios},
    servers::{self, BenchServer, Origin},
};

/// Loads that are sent to servers in turn.
pub(super) struct Contest {
    /// The servers; ours comes first.
    pub(super) entrants: Vec<Entrant>,
    /// The loads, by their names in results.
    pub(super) loads: Vec<(String, Sizes)>,
    /// Number of runs of each load.
    pub(super) rounds: usize,
    /// Starts a server for each run instead of one for all, so that nothing is left in its caches
    /// and the others are not there.
    pub(super) restart: bool,
    /// Members that are added to each request.
    pub(super) extra: Map<String, Value>,
    /// Seed of the random texts in prompts.
    pub(super) seed: u64,
}

/// A server that takes part.
pub(super) struct Entrant {
    /// A running server, or the way to start one.
    pub(super) origin: Origin,
    /// The model to ask it for.
    pub(super) model: String,
}

impl Entrant {
    /// Our server with a model.
    pub(super) fn own(model: &Path, node_options: &str) -> Self {
        Self {
            origin: Origin::Own {
                model: model.to_owned(),
                node_options: node_options.to_owned(),
            },
            model: servers::MODEL.to_owned(),
        }
    }
}

impl Contest {
    /// Adds a row for each load and server. Rows so far are kept if a server fails or a signal stops the
    /// program; the servers that were started end with it.
    pub(super) fn run(&self, results: &mut Results) -> BenchResult {
        until_stopped(async {
            let client = client()?;
            let mut running = Vec::new();
            if !self.restart {
                for entrant in &self.entrants {
                    running.push(Site::open(entrant, &client).await?);
                }
            }
            // The same for all, so that all get the same texts.
            let mut measure = running.first().map(|site| site.measure);
            for (name, sizes) in &self.loads {
                let mut measured = vec![Vec::new(); self.entrants.len()];
                for round in 0..self.rounds {
                    for turn in 0..self.entrants.len() {
                        // Who comes first changes from round to round.
                        let number = (round + turn) % self.entrants.len();
                        let fresh;
                        let site = if let Some(site) = running.get(number) {
                            site
                        } else {
                            fresh = Site::open(&self.entrants[number], &client).await?;
                            &fresh
                        };
                        let measure = *measure.get_or_insert(site.measure);
                        let actors = plan(name, sizes, measure, self.seed + round as u64);
                        let target = Target {
                            extra: self.extra.clone(),
                            ..site.target.clone()
                        };
                        let (samples, costs) = site.run(&client, &target, &actors).await;
                        let (server, errors) = (&site.server.name, errors(&samples));
                        note(&format!(
                            "{name}, {server}, round {round}: errors {errors:?}"
                        ));
                        measured[number].push(rows(name, server, &samples, costs));
                    }
                }
                add(&measured, results);
            }
            Ok(())
        })
    }
}

/// A server that is ready for loads.
pub(super) struct Site {
    pub(super) server: BenchServer,
    /// Address and model of requests.
    pub(super) target: Target,
    /// Lengths of words in tokens, by which prompts are made.
    pub(super) measure: Measure,
}

impl Site {
    /// Opens a server and asks it for two tokens, to learn how long words are in tokens. That warms
    /// it up too.
    pub(super) async fn open(entrant: &Entrant, client: &Client) -> BenchResult<Self> {
        let server = entrant.origin.open(client).await?;
        if let (Some(after), Some(mib)) = (server.ready_after, server.peak_mib()) {
            let (name, seconds) = (&server.name, after.as_secs_f64());
            note(&format!(
                "{name} is ready after {seconds:.2} s, with {mib:.0} MiB"
            ));
        }
        let target = Target {
            base_url: server.base_url.clone(),
            model: entrant.model.clone(),
            extra: Map::new(),
        };
        let measure = drive::measure(client, &target).await;
        let measure =
            measure.map_err(|error| format!("{} does not answer: {error}", target.base_url))?;
        Ok(Self {
            server,
            target,
            measure,
        })
    }

    /// Runs a load; returns its samples, and what it cost.
    async fn run(
        &self,
        client: &Client,
        target: &Target,
        actors: &[Actor],
    ) -> (Vec<Sample>, Value) {
        let used = || {
            let own = servers::processor_seconds("self");
            (self.server.processor_seconds(), own)
        };
        let since = |(now, before): (Option<f64>, Option<f64>)| Some(now? - before?);
        let before = used();
        let (samples, seconds) = drive::run(client, target, actors).await;
        let now = used();
        let processors = available_parallelism().map_or(1, usize::from) as f64;
        let generator = since((now.1, before.1)).map(|own| 100.0 * own / seconds / processors);
        let costs = json!({
            "seconds": seconds,
            "cpu_seconds": since((now.0, before.0)),
            "RSS_MiB": self.server.peak_mib(),
            "generator_percent": generator,
        });
        (samples, costs)
    }
}

/// The numbers of a load, and those of what arrives in it.
fn rows(load: &str, server: &str, samples: &[Sample], costs: Value) -> Vec<Row> {
    let (arrivals, streams): (Vec<&Sample>, Vec<&Sample>) =
        samples.iter().partition(|sample| sample.arrives);
    let row = |load: String, numbers: Value, costs: Value| -> Row {
        let parts = [json!({"load": load, "server": server}), numbers, costs];
        let members = parts.iter().filter_map(Value::as_object).flatten();
        let members = members.map(|(name, value)| (name.clone(), value.clone()));
        members.collect()
    };
    let numbers = summary(&streams, while_arriving(&arrivals));
    let mut rows = vec![row(load.to_owned(), numbers, costs)];
    if !arrivals.is_empty() {
        let numbers = summary(&arrivals, while_arriving(&[]));
        rows.push(row(format!("{load}, arriving"), numbers, Value::Null));
    }
    rows
}

/// Adds the medians of the rounds of each server, and ratios where there are two.
fn add(measured: &[Vec<Vec<Row>>], results: &mut Results) {
    let parts = measured.iter().flatten().map(Vec::len).max().unwrap_or(0);
    for part in 0..parts {
        let of_part = |rounds: &Vec<Vec<Row>>| -> Vec<Row> {
            let rows = rounds.iter().filter_map(|rows| rows.get(part));
            rows.cloned().collect()
        };
        let servers: Vec<Vec<Row>> = measured.iter().map(of_part).collect();
        for rounds in &servers {
            let mut row = medians(rounds);
            let errors = rounds.iter().filter_map(|row| row["errors"].as_u64());
            row.insert("errors".to_owned(), json!(errors.sum::<u64>()));
            results.add(Value::Object(row));
        }
        if let [ours, theirs] = servers.as_slice() {
            let mut row = ratios(ours, theirs);
            row.insert("load".to_owned(), ours[0]["load"].clone());
            row.insert("server".to_owned(), json!("ratio"));
            results.add(Value::Object(row));
        }
    }
}

/// A client with a connection for each request: servers end idle ones when they like, and a request
/// that is sent just then fails.
pub(super) fn client() -> reqwest::Result<Client> {
    // Fails where it is installed already.
    let _ = ring::default_provider().install_default();
    Client::builder().pool_max_idle_per_host(0).build()
}

/// Runs to the end, or until a signal asks this program to end.
pub(super) fn until_stopped(run: impl Future<Output = BenchResult>) -> BenchResult {
    // One thread: the load generator is to leave the processors to the servers.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            outcome = run => outcome,
            _ = interrupt.recv() => Err("stopped by SIGINT".into()),
            _ = terminate.recv() => Err("stopped by SIGTERM".into()),
        }
    })
}
