//! Metrics of connections, graphs and sequences, read at each scrape.

use std::{fmt, sync::Arc};

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter},
};

use super::families::write;
use crate::{
    kserve::Sequences,
    listen::Connections,
    servable::{Servable, Servables},
};

/// Listeners, each with the name of its users: clients or operators.
pub(crate) type Listeners = [(&'static str, Arc<Connections>); 2];

/// Writes the metrics of connections, by listener.
pub(super) fn encode_connections(
    encoder: &mut DescriptorEncoder<'_>,
    listeners: &Listeners,
) -> fmt::Result {
    let counts = listeners
        .each_ref()
        .map(|(listener, connections)| ([("listener", *listener)], connections.counts()));
    let help = "Open connections";
    let open = counts.map(|(labels, (open, _))| (labels, open as u64));
    write(encoder, ("connections_open", help, MetricType::Gauge), open)?;
    let help = "Connections refused because of the limit";
    let family = ("connections_refused", help, MetricType::Counter);
    let refused = counts.map(|(labels, (_, refused))| (labels, refused));
    write(encoder, family, refused)
}

/// A metric of graphs: name, help, type and reader. A graph without a value has no sample.
type GraphFamily = (
    &'static str,
    &'static str,
    MetricType,
    fn(&Servable) -> Option<u64>,
);

#[rustfmt::skip]
const GRAPH_FAMILIES: [GraphFamily; 5] = [
    ("executor_jobs_waiting", "Jobs of a graph's requests waiting for an executor", MetricType::Gauge, |it| Some(it.jobs_waiting() as u64)),
    ("executor_refusals", "Requests refused because too many jobs waited for an executor", MetricType::Counter, |it| Some(it.sessions_refused())),
    ("response_cache_hits", "Requests answered from the graph's response cache", MetricType::Counter, |it| Some(it.response_cache()?.hits)),
    ("response_cache_misses", "Requests not found in the graph's response cache", MetricType::Counter, |it| Some(it.response_cache()?.misses)),
    ("response_cache_bytes", "Size of the graph's response cache", MetricType::Gauge, |it| Some(it.response_cache()?.bytes)),
];

/// Writes the metrics of graphs.
pub(super) fn encode_graphs(
    encoder: &mut DescriptorEncoder<'_>,
    servables: &Servables,
) -> fmt::Result {
    for (name, help, kind, read) in GRAPH_FAMILIES {
        let graphs = servables.iter();
        let samples = graphs.filter_map(|it| Some(([("graph", it.name())], read(it)?)));
        write(encoder, (name, help, kind), samples)?;
    }
    Ok(())
}

/// Writes the metrics of sequences of requests.
pub(super) fn encode_sequences(
    encoder: &mut DescriptorEncoder<'_>,
    sequences: &Sequences,
) -> fmt::Result {
    let counts = sequences.counts();
    let open = counts.open.iter();
    let open = open.map(|(graph, count)| ([("graph", graph.as_str())], *count as u64));
    let family = ("sequences_open", "Open sequences", MetricType::Gauge);
    write(encoder, family, open)?;
    let help = "Sequences that have ended, by reason";
    let family = ("sequences_ended", help, MetricType::Counter);
    let ended = counts.ended.map(|(why, count)| ([("reason", why)], count));
    write(encoder, family, ended)?;
    let help = "Requests refused because of the limit of sequences";
    let refused =
        encoder.encode_descriptor("sequence_refusals", help, None, MetricType::Counter)?;
    ConstCounter::new(counts.refused).encode(refused)
}
