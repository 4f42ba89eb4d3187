//! Metrics of connections, by listener.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use crate::listen::Connections;

/// Listeners with the names of their users.
pub(crate) type Listeners = [(&'static str, Arc<Connections>); 2];

#[derive(Debug, EncodeLabelSet)]
struct Labels {
    /// Users of the listener: clients or operators.
    listener: &'static str,
}

/// Collector that reads the numbers at each scrape.
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
            "Connections refused because of the limit",
            None,
            MetricType::Counter,
        )?;
        for (labels, (_, count)) in &counts {
            ConstCounter::new(*count).encode(refused.encode_family(labels)?)?;
        }
        Ok(())
    }
}
