//! Metrics of graphs, read from their plans at each scrape.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use crate::{servable::ServedGraphs, tensors::CacheUse};

/// A metric of graphs with a response cache: name, help, type and reader.
type OfCaches = (&'static str, &'static str, MetricType, fn(CacheUse) -> u64);

#[rustfmt::skip]
const CACHES: &[OfCaches] = &[
    ("response_cache_hits", "Requests answered from the graph's response cache", MetricType::Counter, |it| it.hits),
    ("response_cache_misses", "Requests not found in the graph's response cache", MetricType::Counter, |it| it.misses),
    ("response_cache_bytes", "Size of the graph's response cache", MetricType::Gauge, |it| it.bytes),
];

/// Collector that reads all graphs.
pub(super) struct Graphs(Weak<ServedGraphs>);

#[derive(Clone, Debug, EncodeLabelSet)]
struct Labels {
    graph: String,
}

impl Graphs {
    pub(super) fn new(served: &Arc<ServedGraphs>) -> Self {
        Self(Arc::downgrade(served))
    }
}

impl fmt::Debug for Graphs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graphs").finish_non_exhaustive()
    }
}

impl Collector for Graphs {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let servables = self.0.upgrade().map(|served| served.now());
        let graphs = || servables.iter().flat_map(|servables| servables.iter());
        let help = "Jobs of a graph's requests waiting for an executor";
        let mut family =
            encoder.encode_descriptor("executor_jobs_waiting", help, None, MetricType::Gauge)?;
        for servable in graphs() {
            let labels = Labels {
                graph: servable.name().to_owned(),
            };
            let waiting = ConstGauge::new(servable.jobs_waiting() as u64);
            waiting.encode(family.encode_family(&labels)?)?;
        }
        let help = "Requests refused because too many jobs waited for an executor";
        let kind = MetricType::Counter;
        let mut family = encoder.encode_descriptor("executor_refusals", help, None, kind)?;
        for servable in graphs() {
            let labels = Labels {
                graph: servable.name().to_owned(),
            };
            let refused = ConstCounter::new(servable.sessions_refused());
            refused.encode(family.encode_family(&labels)?)?;
        }
        for (name, help, kind, read) in CACHES {
            let mut family = encoder.encode_descriptor(name, help, None, *kind)?;
            for servable in graphs() {
                let Some(usage) = servable.response_cache() else {
                    continue;
                };
                let labels = Labels {
                    graph: servable.name().to_owned(),
                };
                let sample = family.encode_family(&labels)?;
                match kind {
                    MetricType::Counter => ConstCounter::new(read(usage)).encode(sample)?,
                    _ => ConstGauge::new(read(usage)).encode(sample)?,
                }
            }
        }
        Ok(())
    }
}
