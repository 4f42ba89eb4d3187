//! A server, and how a load is sent to it.

use std::{thread::available_parallelism, time::Duration};

use graphmill_bench::{
    load::{
        client::Target,
        drive,
        summary::{Limits, Summary},
        words::Measure,
        workload::{Sizes, Workload},
    },
    servers::{self, Server},
};
use reqwest::Client;
use serde_json::{Map, Value};

use super::{Outcome, note};

/// How often a server is asked for its cells during a load.
const WATCH_EVERY: Duration = Duration::from_millis(500);
/// The rates of an open loop, as shares of the rate that the server can bear.
const PERCENT: [u32; 3] = [50, 80, 120];

/// A workload with its sizes.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// Which one.
    pub(super) workload: Workload,
    /// What is added to its name.
    pub(super) label: String,
    /// How large it is.
    pub(super) sizes: Sizes,
    /// What a request has to keep to be of use.
    pub(super) limits: Limits,
    /// Requests a second that are 100 % of an open loop.
    pub(super) capacity: Option<f64>,
    /// Asks `completions` instead of `chat/completions`.
    pub(super) completions: bool,
    /// Members that are added to each request.
    pub(super) extra: Map<String, Value>,
    /// Seed of its texts.
    pub(super) seed: u64,
}

impl Case {
    /// Its name in results.
    fn name(&self) -> String {
        let name = self.workload.name();
        let name = match self.workload {
            Workload::Trace => format!("{name} {}/s", self.sizes.rate),
            Workload::LivePrefix | Workload::Poisson => name,
            _ => format!("{name} {}", self.sizes.streams),
        };
        if self.label.is_empty() {
            name
        } else {
            format!("{name}, {}", self.label)
        }
    }

    /// Whether it has to be known how much a server can bear.
    pub(super) fn lacks_capacity(&self) -> bool {
        self.workload == Workload::Poisson && self.capacity.is_none()
    }
}

/// A server that is ready for loads.
pub(super) struct Site {
    client: Client,
    /// The server.
    pub(super) server: Server,
    /// The model to ask it for.
    model: String,
    /// How long words are in tokens.
    pub(super) measure: Measure,
}

impl Site {
    /// Asks a server for two tokens, to learn how long words are in tokens. That warms it up too.
    pub(super) async fn new(client: Client, server: Server, model: String) -> Outcome<Self> {
        let target = Target {
            base_url: server.base_url.clone(),
            model: model.clone(),
            completions: false,
            extra: Map::new(),
        };
        let measure = drive::measure(&client, &target).await;
        let measure =
            measure.map_err(|error| format!("{} does not answer: {error}", server.base_url))?;
        Ok(Self {
            client,
            server,
            model,
            measure,
        })
    }

    /// Runs a case; each part of it with its name. `idle` is a server that should do nothing
    /// meanwhile.
    pub(super) async fn run(
        &self,
        case: &Case,
        round: usize,
        idle: Option<&Server>,
    ) -> Vec<(String, Summary)> {
        let Some(capacity) = case.capacity.filter(|_| case.workload == Workload::Poisson) else {
            return vec![(case.name(), self.once(case, round, idle).await)];
        };
        let mut parts = Vec::new();
        for percent in PERCENT {
            let mut part = case.clone();
            part.sizes.rate = capacity * f64::from(percent) / 100.0;
            part.label = format!("{percent} % of {capacity:.2}/s");
            // Texts of its own for each share.
            part.seed += u64::from(1000 * percent);
            parts.push((part.name(), self.once(&part, round, idle).await));
        }
        parts
    }

    /// Requests a second that the server can bear: as many as it answers while more of them are
    /// always waiting.
    pub(super) async fn capacity(&self, case: &Case) -> Outcome<f64> {
        let mut closed = case.clone();
        closed.workload = Workload::Short;
        closed.sizes.turns = 3;
        let summary = self.once(&closed, 0, None).await;
        if summary.failed() > 0 {
            return Err(format!("the capacity cannot be measured: {:?}", summary.errors).into());
        }
        Ok(summary.requests as f64 / summary.seconds)
    }

    async fn once(&self, case: &Case, round: usize, idle: Option<&Server>) -> Summary {
        let plan = case
            .workload
            .plan(&case.sizes, self.measure, case.seed + round as u64);
        let target = Target {
            base_url: self.server.base_url.clone(),
            model: self.model.clone(),
            completions: case.completions,
            extra: case.extra.clone(),
        };
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
            outcome = drive::run(&self.client, &target, &plan) => outcome,
            () = watch => unreachable!("it watches until the load ends"),
        };
        let mut summary = Summary::from_samples(&samples, seconds, case.limits);
        let processors = available_parallelism().map_or(1, usize::from) as f64;
        let since = |now: Option<f64>, before: Option<f64>| Some(now? - before?);
        let generator = servers::own_processor_seconds() - before.0;
        summary.cost.generator_share = generator / seconds / processors;
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
