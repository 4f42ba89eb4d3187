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
pub(super) struct Family<R> {
    name: &'static str,
    help: &'static str,
    value: Value<R>,
}

/// The reader of an engine's sample.
enum Value<R> {
    Gauge(fn(&R) -> f64),
    Counter(fn(&R) -> u64),
    /// Reader of one sample for each reason.
    Finished(fn(&R) -> &[(&'static str, u64)]),
    Histogram(Option<Unit>, fn(&R) -> &Histogram),
}

impl<R> Family<R> {
    const fn new(name: &'static str, help: &'static str, value: Value<R>) -> Self {
        Self { name, help, value }
    }

    pub(super) const fn gauge(
        name: &'static str,
        help: &'static str,
        value: fn(&R) -> f64,
    ) -> Self {
        Self::new(name, help, Value::Gauge(value))
    }

    pub(super) const fn counter(
        name: &'static str,
        help: &'static str,
        value: fn(&R) -> u64,
    ) -> Self {
        Self::new(name, help, Value::Counter(value))
    }

    /// Creates a family of counters of what has ended, by reason.
    pub(super) const fn finished(
        name: &'static str,
        help: &'static str,
        value: fn(&R) -> &[(&'static str, u64)],
    ) -> Self {
        Self::new(name, help, Value::Finished(value))
    }

    pub(super) const fn seconds(
        name: &'static str,
        help: &'static str,
        value: fn(&R) -> &Histogram,
    ) -> Self {
        Self::new(name, help, Value::Histogram(Some(Unit::Seconds), value))
    }

    pub(super) const fn sizes(
        name: &'static str,
        help: &'static str,
        value: fn(&R) -> &Histogram,
    ) -> Self {
        Self::new(name, help, Value::Histogram(None, value))
    }
}

impl<R: Reading> Family<R> {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>, readings: &[R]) -> fmt::Result {
        let (kind, unit) = match &self.value {
            Value::Gauge(_) => (MetricType::Gauge, None),
            Value::Counter(_) | Value::Finished(_) => (MetricType::Counter, None),
            Value::Histogram(unit, _) => (MetricType::Histogram, unit.as_ref()),
        };
        let mut family = encoder.encode_descriptor(self.name, self.help, unit, kind)?;
        for reading in readings {
            let labels = reading.labels();
            match self.value {
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
                Value::Histogram(_, value) => {
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
