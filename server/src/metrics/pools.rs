//! Metrics for schedulers of Kubernetes inference pools, which expect the names of vLLM. They read
//! one sample of a family, so each family has a single one for all engines.

use std::{
    collections::BTreeSet,
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{MetricType, gauge::ConstGauge},
};

use super::{engines::Reading, families::Engines};

/// Collector that reads all LLM engines.
#[derive(Debug)]
pub(super) struct Pools(pub(super) Engines<Reading>);

/// Tokens in a block, in which schedulers measure prompts and caches. Graphmill has no blocks: it
/// finds prefixes of any length.
const BLOCK_TOKENS: u64 = 16;

#[derive(Clone, Debug, EncodeLabelSet)]
struct CacheLabels {
    block_size: u64,
    num_gpu_blocks: u64,
}

/// Labels with adapters. Lists of names are separated by commas.
#[derive(Clone, Debug, EncodeLabelSet)]
struct AdapterLabels {
    max_lora: u64,
    running_lora_adapters: String,
    waiting_lora_adapters: String,
}

impl Collector for Pools {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let engines = self.0.read();
        let sum = |count: fn(&Reading) -> u32| -> u64 {
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
        let name = "vllm:cache_config_info";
        let help = "Size of the KV cache, in blocks";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let labels = CacheLabels {
            block_size: BLOCK_TOKENS,
            num_gpu_blocks: cells / BLOCK_TOKENS,
        };
        ConstGauge::new(1_u64).encode(family.encode_family(&labels)?)?;
        let name = "vllm:lora_requests_info";
        let help = "Seconds since 1970, with the adapters of running and waiting generations";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let labels = AdapterLabels {
            max_lora: sum(|engine| engine.adapters),
            running_lora_adapters: list(&engines, |engine| &engine.status.adapters_running),
            waiting_lora_adapters: list(&engines, |engine| &engine.status.adapters_waiting),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0.0, |now| now.as_secs_f64());
        ConstGauge::new(now).encode(family.encode_family(&labels)?)
    }
}

/// Lists the adapters of all engines, each once.
fn list(engines: &[Reading], of: fn(&Reading) -> &Vec<String>) -> String {
    let names: BTreeSet<&str> = engines.iter().flat_map(of).map(String::as_str).collect();
    names.into_iter().collect::<Vec<_>>().join(",")
}
