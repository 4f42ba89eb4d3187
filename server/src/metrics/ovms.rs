//! OpenVINO Model Server's metrics of graphs, under its names, for existing dashboards.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{MetricType, gauge::ConstGauge},
};

use crate::servable::ServedGraphs;

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
#[derive(Debug)]
pub(super) struct Counts {
    served: Weak<ServedGraphs>,
    requests: Mutex<BTreeMap<(String, bool), Requests>>,
}

#[derive(Copy, Clone, Debug, Default)]
struct Requests {
    accepted: u64,
    rejected: u64,
    failed: u64,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct GraphLabels {
    name: String,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct RequestLabels {
    name: String,
    api: &'static str,
    method: &'static str,
    interface: &'static str,
}

impl Counts {
    pub(super) fn new(served: &Arc<ServedGraphs>) -> Self {
        Self {
            served: Arc::downgrade(served),
            requests: Mutex::default(),
        }
    }

    pub(super) fn count(&self, graph: &str, streams: bool, taken: RequestOutcome) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
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
}

/// Collector of the counts. Their names have no suffix for counters in OpenVINO Model Server, so
/// their type is not given.
#[derive(Debug)]
pub(super) struct Families(pub(super) Arc<Counts>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let servables = self.0.served.upgrade().map(|served| served.now());
        let (name, help) = ("ovms_current_graphs", "Open runs of the graph");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for servable in servables.iter().flat_map(|servables| servables.iter()) {
            let labels = GraphLabels {
                name: servable.name().to_owned(),
            };
            let open = ConstGauge::new(servable.open_sessions() as u64);
            open.encode(family.encode_family(&labels)?)?;
        }
        let requests = self.0.requests.lock();
        let requests = requests.unwrap_or_else(PoisonError::into_inner).clone();
        for (name, help, value) in FAMILIES {
            let kind = MetricType::Unknown;
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for ((graph, streams), requests) in &requests {
                let labels = RequestLabels {
                    name: graph.clone(),
                    api: "V3",
                    method: if *streams { "Stream" } else { "Unary" },
                    interface: "REST",
                };
                let count = ConstGauge::new(value(requests));
                count.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

type FamilyOf = (&'static str, &'static str, fn(&Requests) -> u64);

const FAMILIES: &[FamilyOf] = &[
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
