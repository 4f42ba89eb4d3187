//! Families of metrics with a sample for each engine, whose values come from what it said at a
//! scrape.

use std::fmt;

use graphmill_llm::Histogram;
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

/// What one engine says at a scrape.
pub(super) trait Reading {
    fn labels(&self) -> &LlmEngineLabels;
}

#[derive(Clone, Debug, EncodeLabelSet)]
pub(super) struct LlmEngineLabels {
    /// The first graph that uses the engine.
    pub(super) graph: String,
    pub(super) model: String,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct FinishLabels {
    graph: String,
    model: String,
    reason: String,
}

/// A family: name, help, and what its samples are.
pub(super) type Gauge<R> = (&'static str, &'static str, fn(&R) -> f64);
pub(super) type Counter<R> = (&'static str, &'static str, fn(&R) -> u64);
pub(super) type Distribution<R> = (
    &'static str,
    &'static str,
    Option<Unit>,
    fn(&R) -> &Histogram,
);

pub(super) fn gauges<R: Reading>(
    encoder: &mut DescriptorEncoder<'_>,
    readings: &[R],
    families: &[Gauge<R>],
) -> fmt::Result {
    for (name, help, value) in families {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for reading in readings {
            let gauge = ConstGauge::new(value(reading));
            gauge.encode(family.encode_family(reading.labels())?)?;
        }
    }
    Ok(())
}

pub(super) fn counters<R: Reading>(
    encoder: &mut DescriptorEncoder<'_>,
    readings: &[R],
    families: &[Counter<R>],
) -> fmt::Result {
    for (name, help, value) in families {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for reading in readings {
            let counter = ConstCounter::new(value(reading));
            counter.encode(family.encode_family(reading.labels())?)?;
        }
    }
    Ok(())
}

/// A counter of what has ended, by why.
pub(super) fn finished<R: Reading, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    readings: &[R],
    (name, help): (&'static str, &'static str),
    finished: fn(&R) -> [(&'static str, u64); N],
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for reading in readings {
        let LlmEngineLabels { graph, model } = reading.labels();
        for (reason, count) in finished(reading) {
            let labels = FinishLabels {
                graph: graph.clone(),
                model: model.clone(),
                reason: reason.to_owned(),
            };
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

pub(super) fn histograms<R: Reading>(
    encoder: &mut DescriptorEncoder<'_>,
    readings: &[R],
    families: &[Distribution<R>],
) -> fmt::Result {
    for (name, help, unit, value) in families {
        let kind = MetricType::Histogram;
        let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for reading in readings {
            let histogram = value(reading);
            family
                .encode_family(reading.labels())?
                .encode_histogram::<[(&str, &str); 0]>(
                    histogram.sum,
                    histogram.count,
                    &histogram.buckets,
                    None,
                )?;
        }
    }
    Ok(())
}
