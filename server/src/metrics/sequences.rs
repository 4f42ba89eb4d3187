//! Metrics of sequences of requests, read at each scrape.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use crate::kserve::Sequences;

#[derive(Debug, EncodeLabelSet)]
struct GraphLabels {
    graph: String,
}

#[derive(Debug, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// Collector that reads the numbers at each scrape.
pub(super) struct SequenceMetrics(pub(super) Arc<Sequences>);

impl fmt::Debug for SequenceMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequenceMetrics").finish_non_exhaustive()
    }
}

impl Collector for SequenceMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.0.counts();
        let mut open = encoder.encode_descriptor(
            "sequences_open",
            "Open sequences",
            None,
            MetricType::Gauge,
        )?;
        for (graph, count) in counts.open {
            ConstGauge::new(count as i64).encode(open.encode_family(&GraphLabels { graph })?)?;
        }
        let mut ended = encoder.encode_descriptor(
            "sequences_ended",
            "Sequences that have ended, by reason",
            None,
            MetricType::Counter,
        )?;
        for (reason, count) in counts.ended {
            ConstCounter::new(count).encode(ended.encode_family(&ReasonLabels { reason })?)?;
        }
        let refused = encoder.encode_descriptor(
            "sequence_refusals",
            "Requests refused because of the limit of sequences",
            None,
            MetricType::Counter,
        )?;
        ConstCounter::new(counts.refused).encode(refused)
    }
}
