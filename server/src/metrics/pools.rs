//! Metrics for schedulers of Kubernetes inference pools, which expect the names of vLLM. They read
//! one sample of a family, so each family has a single one for all engines.

use std::{
    collections::BTreeSet,
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, gauge::ConstGauge},
};

use super::{
    engines::LlmEngineFigures,
    families::{EngineFigures as _, write},
};
use crate::servable::Servables;

/// Tokens in a block, in which schedulers measure prompts and caches. Graphmill has no blocks: it
/// finds prefixes of any length.
const BLOCK_TOKENS: u64 = 16;

/// Writes the sums over all LLM engines.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, servables: &Servables) -> fmt::Result {
    let engines = LlmEngineFigures::read(servables).into_iter();
    let engines: Vec<_> = engines.map(|(_, figures)| figures).collect();
    let sum = |count: fn(&LlmEngineFigures) -> u32| -> u64 {
        engines.iter().map(|engine| u64::from(count(engine))).sum()
    };
    let cells = sum(|engine| engine.status.kv_cells_total);
    let used = sum(|engine| engine.status.kv_cells_used);
    let gauges = [
        (
            "vllm:num_requests_running",
            "Generations with a slot, of all engines",
            sum(|engine| engine.status.sequences_running) as f64,
        ),
        (
            "vllm:num_requests_waiting",
            "Generations waiting for a slot, of all engines",
            sum(|engine| engine.status.sequences_waiting) as f64,
        ),
        (
            "vllm:kv_cache_usage_perc",
            "Share of all KV cells that hold a token, from 0 to 1",
            used as f64 / cells.max(1) as f64,
        ),
    ];
    for (name, help, value) in gauges {
        let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(family)?;
    }
    let help = "Size of the KV cache, in blocks";
    let family = ("vllm:cache_config_info", help, MetricType::Gauge);
    let labels = [
        ("block_size", BLOCK_TOKENS),
        ("num_gpu_blocks", cells / BLOCK_TOKENS),
    ];
    write(encoder, family, [(labels, 1)])?;
    let name = "vllm:lora_requests_info";
    let help = "Seconds since 1970, with the adapters of running and waiting generations";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    let running = list(&engines, |engine| &engine.status.adapters_running);
    let waiting = list(&engines, |engine| &engine.status.adapters_waiting);
    // Lists of names are separated by commas.
    let labels = [
        ("max_lora", sum(|engine| engine.adapters).to_string()),
        ("running_lora_adapters", running),
        ("waiting_lora_adapters", waiting),
    ];
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0.0, |now| now.as_secs_f64());
    ConstGauge::new(now).encode(family.encode_family(&labels)?)
}

/// Lists the adapters of all engines, each once.
fn list(engines: &[LlmEngineFigures], of: fn(&LlmEngineFigures) -> &Vec<String>) -> String {
    let names: BTreeSet<&str> = engines.iter().flat_map(of).map(String::as_str).collect();
    names.into_iter().collect::<Vec<_>>().join(",")
}
