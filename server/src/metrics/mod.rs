//! `GET /metrics`: counters, gauges and histograms in the text format of Prometheus, or in
//! `OpenMetrics` if the scraper asks for it.
//!
//! Labels are bounded: graphs by the configuration, models by the graphs, endpoints by the routes,
//! codes by HTTP.

mod batching;
mod embedding;
mod engines;
mod families;
mod keys;
mod ovms;
mod pools;
mod server;
mod text;

use std::{sync::Arc, time::Duration};

use axum::{
    http::{HeaderMap, header},
    response::IntoResponse,
};
use prometheus_client::{
    encoding::text as openmetrics,
    metrics::{
        counter::Counter, exemplar::HistogramWithExemplars, family::Family, gauge::Gauge,
        histogram::Histogram, info::Info,
    },
    registry::{Registry, Unit},
};

pub(crate) use keys::KeyCounts;
pub(crate) use ovms::RequestOutcome;

use crate::{
    errors::{Cause, Failure},
    kserve::Sequences,
    servable::ServedGraphs,
    telemetry::log,
};
use families::{collector, graph_collector};
use server::Listeners;

/// Upper bounds of histogram buckets for request times, in seconds.
const REQUEST_SECONDS: [f64; 14] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];

/// The counters of the server, and the registry of all metrics.
pub(crate) struct Metrics {
    registry: Registry,
    /// Counts by graph, endpoint and code: the HTTP status, or `left` for a client that left before
    /// there was one.
    requests: Family<Labels<3>, Counter>,
    /// Times of whole requests, by graph and endpoint.
    durations: Family<Labels<2>, Durations>,
    /// Times to the first part of an answer, by graph.
    first_tokens: Family<Labels<1>, Histogram>,
    open: Gauge,
    keys: KeyCounts,
    ovms: Arc<ovms::Counts>,
}

/// Labels of a sample: their names and values.
type Labels<const N: usize> = [(&'static str, String); N];

/// Histogram of request times, with the trace of one request as an exemplar in each bucket.
type Durations = HistogramWithExemplars<Labels<1>>;

impl Metrics {
    /// Creates all metrics of a server, including its connections and engines.
    pub(crate) fn new(
        served: &Arc<ServedGraphs>,
        connections: Listeners,
        sequences: &Arc<Sequences>,
    ) -> Self {
        let mut all = Registry::default();
        all.register_collector(graph_collector(served, pools::encode));
        let ovms = Arc::<ovms::Counts>::default();
        let counts = Arc::clone(&ovms);
        all.register_collector(graph_collector(served, move |encoder, servables| {
            counts.encode(encoder, servables)
        }));
        let registry = all.sub_registry_with_prefix("graphmill");
        let requests = Family::default();
        let durations: Family<_, Durations> = Family::new_with_constructor(|| {
            HistogramWithExemplars::new(REQUEST_SECONDS.into_iter())
        });
        let first_tokens: Family<_, Histogram> =
            Family::new_with_constructor(|| Histogram::new(REQUEST_SECONDS));
        registry.register_with_unit(
            "time_to_first_token",
            "Time from a request's head to the first part of a generated answer: the first event of a stream, otherwise the whole answer",
            Unit::Seconds,
            first_tokens.clone(),
        );
        let open = Gauge::default();
        registry.register("requests", "HTTP requests answered", requests.clone());
        registry.register_with_unit(
            "request_duration",
            "Time from a request's head to the end of its answer",
            Unit::Seconds,
            durations.clone(),
        );
        let help = "HTTP requests being answered";
        registry.register("requests_open", help, open.clone());
        let keys = KeyCounts::default();
        keys.register(registry);
        let help = "Log lines that were dropped because they were not read fast enough";
        registry.register("log_lines_dropped", help, log::dropped());
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The server's version", version);
        registry.register_collector(collector(move |encoder| {
            server::encode_connections(encoder, &connections)
        }));
        for encode in [
            families::encode::<engines::LlmEngineFigures>,
            families::encode::<embedding::EmbeddingFigures>,
            families::encode::<batching::BatcherFigures>,
            server::encode_graphs,
        ] {
            registry.register_collector(graph_collector(served, encode));
        }
        let sequences = Arc::clone(sequences);
        registry.register_collector(collector(move |encoder| {
            server::encode_sequences(encoder, &sequences)
        }));
        Self {
            registry: all,
            requests,
            durations,
            first_tokens,
            open,
            keys,
            ovms,
        }
    }

    /// Writes all metrics in the format that the headers ask for.
    pub(crate) fn scrape(&self, headers: &HeaderMap) -> Result<impl IntoResponse + use<>, Failure> {
        let mut body = String::new();
        openmetrics::encode(&mut body, &self.registry)
            .map_err(|_| Failure::new(Cause::Panic, "the metrics could not be written"))?;
        let content_type = if text::wants_openmetrics(headers) {
            text::OPENMETRICS
        } else {
            body = text::from_openmetrics(&body);
            text::CONTENT_TYPE
        };
        let headers = [
            (header::CONTENT_TYPE, content_type),
            (header::VARY, "accept"),
        ];
        Ok((headers, body))
    }

    /// Returns the counts by key.
    pub(crate) fn keys(&self) -> &KeyCounts {
        &self.keys
    }

    /// Counts a request that has arrived.
    pub(crate) fn begins(&self) {
        self.open.inc();
    }

    /// Counts a request that was answered, or whose client has left. `graph` is empty if no graph
    /// took the request. `trace` is the trace of its spans, if they are sent.
    pub(crate) fn ends(
        &self,
        graph: &str,
        endpoint: &str,
        code: Option<u16>,
        took: Duration,
        trace: Option<String>,
    ) {
        self.open.dec();
        let labels = [
            ("graph", graph.to_owned()),
            ("endpoint", endpoint.to_owned()),
        ];
        let code = code.map_or_else(|| "left".to_owned(), |code| code.to_string());
        let [of_graph, of_endpoint] = labels.clone();
        let request = [of_graph, of_endpoint, ("code", code)];
        self.requests.get_or_create(&request).inc();
        let trace = trace.map(|trace_id| [("trace_id", trace_id)]);
        let durations = self.durations.get_or_create(&labels);
        durations.observe(took.as_secs_f64(), trace, None);
    }

    /// Records the time to the first part of a generated answer.
    pub(crate) fn first_token(&self, graph: &str, took: Duration) {
        let labels = [("graph", graph.to_owned())];
        let times = self.first_tokens.get_or_create(&labels);
        times.observe(took.as_secs_f64());
    }

    /// Counts a request for a graph that has ended.
    pub(crate) fn graph_ends(&self, graph: &str, streams: bool, taken: RequestOutcome) {
        self.ovms.count(graph, streams, taken);
    }
}

/// Media types of a scrape.
pub(crate) const CONTENT_TYPES: [&str; 2] = [text::CONTENT_TYPE, text::OPENMETRICS];
