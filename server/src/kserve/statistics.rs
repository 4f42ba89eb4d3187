//! Counts and times of requests for each graph, for all protocols.

use std::{collections::BTreeMap, time::Duration};

use chrono::Utc;
use parking_lot::Mutex;

use super::{
    Label, asked,
    proto::{InferStatistics, ModelStatistics, ModelStatisticsResponse, StatisticDuration},
};
use crate::{errors::Result, run::RequestContext, servable::Servable};

/// Counts of a graph without requests.
const NONE: InferStatistics = {
    let none = Some(StatisticDuration { count: 0, ns: 0 });
    InferStatistics {
        success: none,
        fail: none,
        queue: none,
        compute_input: none,
        compute_infer: none,
        compute_output: none,
        cache_hit: none,
        cache_miss: none,
    }
};

/// Counts of all graphs. The number of graphs that were ever listed bounds them.
#[derive(Debug, Default)]
pub(crate) struct Statistics(Mutex<BTreeMap<String, ModelStatistics>>);

impl Statistics {
    /// Counts a request that has ended. `kept` is true if its answer came from the graph's cache;
    /// `None` if the graph has no cache.
    pub(crate) fn ended(
        &self,
        graph: &str,
        well: bool,
        took: Duration,
        queued: Option<Duration>,
        kept: Option<bool>,
    ) {
        let mut graphs = self.0.lock();
        let counts = graphs.entry(graph.to_owned()).or_default();
        counts.last_inference = Utc::now().timestamp_millis().cast_unsigned();
        let stats = counts.inference_stats.get_or_insert(NONE);
        if !well {
            return add(&mut stats.fail, took);
        }
        let queued = queued.unwrap_or_default();
        counts.inference_count += 1;
        add(&mut stats.success, took);
        match kept {
            Some(true) => return add(&mut stats.cache_hit, took),
            Some(false) => add(&mut stats.cache_miss, took),
            None => {}
        }
        counts.execution_count += 1;
        add(&mut stats.queue, queued);
        add(&mut stats.compute_infer, took.saturating_sub(queued));
        // Pre- and post-processing are not timed separately. Triton's `perf_analyzer` fails if the
        // three counts differ.
        add(&mut stats.compute_input, Duration::ZERO);
        add(&mut stats.compute_output, Duration::ZERO);
    }

    /// Returns the counts of a graph.
    fn read(&self, servable: &Servable) -> ModelStatistics {
        let Label { name, version } = servable.into();
        let counts = self.0.lock().get(servable.name()).cloned();
        let counts = counts.unwrap_or_default();
        ModelStatistics {
            name,
            version,
            inference_stats: counts.inference_stats.or(Some(NONE)),
            ..counts
        }
    }

    /// Returns the counts of a version, or of all versions of a graph.
    pub(crate) fn read_asked(
        &self,
        who: &RequestContext,
        name: &str,
        version: &str,
    ) -> Result<ModelStatisticsResponse> {
        let all = asked(who, name, version)?;
        let model_stats = all.iter().map(|it| self.read(it)).collect();
        Ok(ModelStatisticsResponse { model_stats })
    }

    /// Returns the counts of each graph that the caller may use.
    pub(crate) fn read_all(&self, who: &RequestContext) -> ModelStatisticsResponse {
        let servables = who.servables();
        let seen = servables.iter().filter(|it| who.sees(it.graph(), None));
        let model_stats = seen.map(|servable| self.read(servable)).collect();
        ModelStatisticsResponse { model_stats }
    }
}

/// Adds a request that took this time.
fn add(sum: &mut Option<StatisticDuration>, took: Duration) {
    let sum = sum.get_or_insert_default();
    sum.count += 1;
    sum.ns += took.as_nanos() as u64;
}
