//! Families of metrics, read at each scrape.

use std::{fmt, sync::Arc};

use graphmill_llm::Histogram;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

use super::Labels;
use crate::servable::{Servables, ServedGraphs};

/// Collector that calls a function at each scrape.
struct FnCollector<F>(F);

impl<F> fmt::Debug for FnCollector<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FnCollector")
    }
}

impl<F> Collector for FnCollector<F>
where
    F: Fn(&mut DescriptorEncoder<'_>) -> fmt::Result + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.0)(&mut encoder)
    }
}

/// Creates a collector that calls a function at each scrape.
pub(super) fn collector(
    encode: impl Fn(&mut DescriptorEncoder<'_>) -> fmt::Result + Send + Sync + 'static,
) -> Box<dyn Collector> {
    Box::new(FnCollector(encode))
}

/// Creates a collector that calls a function with the served graphs at each scrape.
pub(super) fn graph_collector(
    served: &Arc<ServedGraphs>,
    encode: impl Fn(&mut DescriptorEncoder<'_>, &Servables) -> fmt::Result + Send + Sync + 'static,
) -> Box<dyn Collector> {
    let served = Arc::downgrade(served);
    collector(move |encoder| {
        let served = served.upgrade();
        served.map_or(Ok(()), |served| encode(encoder, &served.now()))
    })
}

/// Writes a family of counters or gauges, given its name, help and type, with a sample for each set
/// of labels.
pub(super) fn write<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, kind): (&str, &str, MetricType),
    samples: impl IntoIterator<Item = (L, u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in samples {
        let sample = family.encode_family(&labels)?;
        match kind {
            MetricType::Counter => ConstCounter::new(value).encode(sample)?,
            _ => ConstGauge::new(value).encode(sample)?,
        }
    }
    Ok(())
}

/// Figures of an engine with its labels: the first graph that uses it, and its model.
pub(super) type Figures<E> = (Labels<2>, E);

/// The figures of one engine at a scrape.
pub(super) trait EngineFigures: Sized + 'static {
    /// Metrics of such engines, in the order of the page.
    const FAMILIES: &'static [Family<Self>];

    /// Reads the figures of all engines.
    fn read(servables: &Servables) -> Vec<Figures<Self>>;
}

/// Writes the metrics of all engines of one kind.
pub(super) fn encode<E: EngineFigures>(
    encoder: &mut DescriptorEncoder<'_>,
    servables: &Servables,
) -> fmt::Result {
    let engines = E::read(servables);
    let mut families = E::FAMILIES.iter();
    families.try_for_each(|family| family.encode(encoder, &engines))
}

/// A family of metrics: its name, its help, and how to read its value.
pub(super) struct Family<E>(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) Value<E>,
);

/// The reader of an engine's sample.
pub(super) enum Value<E> {
    Gauge(fn(&E) -> f64),
    Counter(fn(&E) -> u64),
    /// Reader of one sample for each reason for which something has ended.
    Finished(fn(&E) -> &[(&'static str, u64)]),
    Seconds(fn(&E) -> &Histogram),
    Sizes(fn(&E) -> &Histogram),
}

impl<E: EngineFigures> Family<E> {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>, engines: &[Figures<E>]) -> fmt::Result {
        let Self(name, help, value) = self;
        let (kind, unit) = match value {
            Value::Gauge(_) => (MetricType::Gauge, None),
            Value::Counter(_) | Value::Finished(_) => (MetricType::Counter, None),
            Value::Seconds(_) => (MetricType::Histogram, Some(&Unit::Seconds)),
            Value::Sizes(_) => (MetricType::Histogram, None),
        };
        let mut family = encoder.encode_descriptor(name, help, unit, kind)?;
        for (labels, figures) in engines {
            match value {
                Value::Gauge(value) => {
                    ConstGauge::new(value(figures)).encode(family.encode_family(labels)?)?;
                }
                Value::Counter(value) => {
                    ConstCounter::new(value(figures)).encode(family.encode_family(labels)?)?;
                }
                Value::Finished(finished) => {
                    for (reason, count) in finished(figures) {
                        let [graph, model] = labels.clone();
                        let labels = [graph, model, ("reason", (*reason).to_owned())];
                        ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
                    }
                }
                Value::Seconds(value) | Value::Sizes(value) => {
                    let it = value(figures);
                    let mut sample = family.encode_family(labels)?;
                    sample.encode_histogram::<NoLabelSet>(it.sum, it.count, &it.buckets, None)?;
                }
            }
        }
        Ok(())
    }
}
