//! OpenVINO Model Server's metrics of graphs, under its names, for existing dashboards.

use std::{collections::BTreeMap, fmt};

use parking_lot::Mutex;
use prometheus_client::{encoding::DescriptorEncoder, metrics::MetricType};

use super::families::write;
use crate::servable::Servables;

/// The result of a request for a graph.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// The graph did not take it.
    Rejected,
    /// The graph answered, or the client left before.
    Answered,
    /// The graph took it and ended with an error.
    Failed,
}

/// Counts by graph, and by whether the request is streamed.
#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<BTreeMap<(String, bool), Requests>>);

#[derive(Copy, Clone, Debug, Default)]
struct Requests {
    accepted: u64,
    rejected: u64,
    failed: u64,
}

impl Counts {
    pub(super) fn count(&self, graph: &str, streams: bool, taken: RequestOutcome) {
        let mut requests = self.0.lock();
        let requests = requests.entry((graph.to_owned(), streams)).or_default();
        match taken {
            RequestOutcome::Rejected => requests.rejected += 1,
            RequestOutcome::Answered => requests.accepted += 1,
            RequestOutcome::Failed => {
                requests.accepted += 1;
                requests.failed += 1;
            }
        }
    }
    /// Writes the counts. Their names have no suffix for counters in OpenVINO Model Server, so their
    /// type is not given.
    pub(super) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        servables: &Servables,
    ) -> fmt::Result {
        let graphs = servables.iter();
        let open = graphs.map(|it| ([("name", it.name())], it.open_sessions() as u64));
        let help = "Open runs of the graph";
        let family = ("ovms_current_graphs", help, MetricType::Gauge);
        write(encoder, family, open)?;
        let requests = self.0.lock().clone();
        for &(name, help, value) in FAMILIES {
            let counts = requests.iter().map(|((graph, streams), requests)| {
                let method = if *streams { "Stream" } else { "Unary" };
                let labels = [
                    ("name", graph.as_str()),
                    ("api", "V3"),
                    ("method", method),
                    ("interface", "REST"),
                ];
                (labels, value(requests))
            });
            write(encoder, (name, help, MetricType::Unknown), counts)?;
        }
        Ok(())
    }
}

/// A metric of requests: name, help and reader.
type RequestFamily = (&'static str, &'static str, fn(&Requests) -> u64);

const FAMILIES: &[RequestFamily] = &[
    (
        "ovms_requests_accepted",
        "Requests that the graph took",
        |requests| requests.accepted,
    ),
    (
        "ovms_requests_rejected",
        "Requests that the graph did not take",
        |requests| requests.rejected,
    ),
    (
        "ovms_graph_error",
        "Requests that the graph took and ended with an error",
        |requests| requests.failed,
    ),
];
