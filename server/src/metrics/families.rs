//! Families of metrics with a sample for each engine, read from its figures at each scrape.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use graphmill_llm::Histogram;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

use crate::servable::{Servables, ServedGraphs};

/// The figures of one engine at a scrape.
pub(super) trait Reading: Sized + 'static {
    /// Metrics of such engines, in the order of the page.
    const FAMILIES: &'static [Family<Self>];

    /// Reads the figures of all engines.
    fn read(servables: &Servables) -> Vec<Self>;

    fn labels(&self) -> &LlmEngineLabels;
}

#[derive(Clone, Debug, EncodeLabelSet)]
pub(super) struct LlmEngineLabels {
    /// Name of the first graph that uses the engine.
    pub(super) graph: String,
    pub(super) model: String,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct FinishLabels {
    graph: String,
    model: String,
    reason: String,
}

/// A family of metrics: its name, its help, and how to read its value.
pub(super) struct Family<R>(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) Value<R>,
);

/// The reader of an engine's sample.
pub(super) enum Value<R> {
    Gauge(fn(&R) -> f64),
    Counter(fn(&R) -> u64),
    /// Reader of one sample for each reason for which something has ended.
    Finished(fn(&R) -> &[(&'static str, u64)]),
    Seconds(fn(&R) -> &Histogram),
    Sizes(fn(&R) -> &Histogram),
}

impl<R: Reading> Family<R> {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>, readings: &[R]) -> fmt::Result {
        let Self(name, help, value) = self;
        let (kind, unit) = match value {
            Value::Gauge(_) => (MetricType::Gauge, None),
            Value::Counter(_) | Value::Finished(_) => (MetricType::Counter, None),
            Value::Seconds(_) => (MetricType::Histogram, Some(&Unit::Seconds)),
            Value::Sizes(_) => (MetricType::Histogram, None),
        };
        let mut family = encoder.encode_descriptor(name, help, unit, kind)?;
        for reading in readings {
            let labels = reading.labels();
            match value {
                Value::Gauge(value) => {
                    ConstGauge::new(value(reading)).encode(family.encode_family(labels)?)?;
                }
                Value::Counter(value) => {
                    ConstCounter::new(value(reading)).encode(family.encode_family(labels)?)?;
                }
                Value::Finished(finished) => {
                    for (reason, count) in finished(reading) {
                        let labels = FinishLabels {
                            graph: labels.graph.clone(),
                            model: labels.model.clone(),
                            reason: (*reason).to_owned(),
                        };
                        ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
                    }
                }
                Value::Seconds(value) | Value::Sizes(value) => {
                    let histogram = value(reading);
                    family
                        .encode_family(labels)?
                        .encode_histogram::<[(&str, &str); 0]>(
                            histogram.sum,
                            histogram.count,
                            &histogram.buckets,
                            None,
                        )?;
                }
            }
        }
        Ok(())
    }
}

/// The engines of one kind, as a source of figures.
pub(super) struct Engines<R> {
    served: Weak<ServedGraphs>,
    kind: std::marker::PhantomData<fn() -> R>,
}

impl<R: Reading> Engines<R> {
    pub(super) fn new(served: &Arc<ServedGraphs>) -> Self {
        Self {
            served: Arc::downgrade(served),
            kind: std::marker::PhantomData,
        }
    }

    pub(super) fn read(&self) -> Vec<R> {
        let served = self.served.upgrade();
        served.map_or_else(Vec::new, |served| R::read(&served.now()))
    }
}

impl<R> fmt::Debug for Engines<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engines").finish_non_exhaustive()
    }
}

impl<R: Reading> Collector for Engines<R> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let readings = self.read();
        let mut families = R::FAMILIES.iter();
        families.try_for_each(|family| family.encode(&mut encoder, &readings))
    }
}
