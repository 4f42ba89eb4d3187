//! Connections of each listener.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use crate::listen::Connections;

/// Listeners by whom they are for.
pub(crate) type Listeners = [(&'static str, Arc<Connections>); 2];

#[derive(Debug, EncodeLabelSet)]
struct Labels {
    /// Whom the listener is for.
    listener: &'static str,
}

/// Reads the numbers at a scrape.
pub(super) struct ConnectionMetrics(pub(super) Listeners);

impl fmt::Debug for ConnectionMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionMetrics").finish_non_exhaustive()
    }
}

impl Collector for ConnectionMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self
            .0
            .each_ref()
            .map(|(listener, connections)| (Labels { listener }, connections.counts()));
        let mut open = encoder.encode_descriptor(
            "connections_open",
            "Open connections",
            None,
            MetricType::Gauge,
        )?;
        for (labels, (count, _)) in &counts {
            ConstGauge::new(*count as i64).encode(open.encode_family(labels)?)?;
        }
        let mut refused = encoder.encode_descriptor(
            "connections_refused",
            "Connections that found no place",
            None,
            MetricType::Counter,
        )?;
        for (labels, (_, count)) in &counts {
            ConstCounter::new(*count).encode(refused.encode_family(labels)?)?;
        }
        Ok(())
    }
}
