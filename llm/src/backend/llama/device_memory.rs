//! Memory that a model needs, and that each device has.

use std::collections::HashMap;

use super::ffi::Model;
use super::model::Weights;
use super::{devices, log_lines};
use crate::memory::Pool;
use crate::memory_budget;
use crate::model::info::BufferInfo;
use crate::settings::{FlashAttention, KvType, LlmEngineSpec};

/// The name of main memory in messages.
pub(super) const MACHINE: &str = "this machine";

/// Memory that can be taken, for main memory and each GPU.
#[derive(Clone, Debug)]
pub(super) struct Available {
    machine: Option<u64>,
    /// Names and free bytes of the GPUs.
    gpus: Vec<(String, u64)>,
    /// Bytes that are set aside for the draft model, by the memory's name.
    pub(super) draft: HashMap<String, u64>,
    /// Bytes that are set aside for the projector, by the memory's name.
    projector: HashMap<String, u64>,
}

impl Available {
    /// Asks the system and the GPUs. Must be called before a model is loaded.
    pub(super) fn now() -> Self {
        let gpus = devices::gpus().into_iter();
        Self {
            machine: memory_budget::available_bytes(),
            gpus: gpus.map(|gpu| (gpu.name, gpu.memory_free as u64)).collect(),
            draft: HashMap::new(),
            projector: HashMap::new(),
        }
    }

    /// Sets aside the bytes of a projector: in main memory, or on the GPU with this number.
    #[cfg(feature = "vision")]
    pub(super) fn set_aside_projector(&mut self, gpu: Option<usize>, bytes: u64) {
        let gpu = gpu.and_then(|number| self.gpus.get(number));
        let name = gpu.map_or_else(|| MACHINE.to_owned(), |(name, _)| name.clone());
        self.projector.insert(name, bytes);
    }

    /// Returns true if a device of this name is a GPU.
    pub(super) fn is_gpu(&self, device: &str) -> bool {
        self.gpus.iter().any(|(name, _)| name == device)
    }
}

/// Returns the memories that hold the model, with the bytes available in each before it was loaded.
pub(super) fn pools(
    weights: &Weights,
    available: &Available,
    spec: &LlmEngineSpec,
    step: &StepBuffers,
    state_bytes: u64,
) -> Vec<Pool> {
    let of = |taken: &HashMap<String, u64>, name: &str| taken.get(name).copied().unwrap_or(0);
    let pool = |name: &str, available_bytes: Option<u64>, kv_share: f64| Pool {
        name: name.to_owned(),
        available_bytes,
        weights_bytes: 0,
        draft_bytes: of(&available.draft, name),
        projector_bytes: of(&available.projector, name),
        // States are on the devices of their layers, as cells are.
        state_bytes: (state_bytes as f64 * kv_share) as u64,
        compute_bytes: 0,
        compute_bytes_per_cell: 0,
        prefix_bytes: 0,
        kv_share,
    };
    let layers: u32 = weights.layout.layers.iter().map(|(_, layers)| layers).sum();
    let bytes_of = |is_counted: &dyn Fn(&BufferInfo) -> bool| -> u64 {
        let buffers = weights.layout.buffers.iter();
        let counted = buffers.filter(|buffer| is_counted(buffer));
        counted.map(|buffer| buffer.bytes).sum()
    };
    let on_gpus = spec.plugin_config.offload_kqv != Some(false);
    let mut pools: Vec<Pool> = Vec::new();
    let (mut kv_on_gpus, mut weights_on_gpus, mut layers_on_gpus) = (0.0, 0, 0);
    for (name, layers_here) in &weights.layout.layers {
        let Some((_, free)) = available.gpus.iter().find(|(gpu, _)| gpu == name) else {
            continue;
        };
        let kv_share = if on_gpus {
            f64::from(*layers_here) / f64::from(layers)
        } else {
            0.0
        };
        kv_on_gpus += kv_share;
        layers_on_gpus += *layers_here;
        let bytes = bytes_of(&|buffer| buffer.memory.starts_with(name.as_str()));
        weights_on_gpus += bytes;
        pools.push(Pool {
            // Shared weights are already missing from the free memory.
            weights_bytes: if weights.shared { 0 } else { bytes },
            compute_bytes: step.compute,
            compute_bytes_per_cell: step.per_cell,
            ..pool(name, Some(*free), kv_share)
        });
    }
    let on_cpu = layers_on_gpus < layers;
    // Pages of a mapped file count as available, whoever uses them. Shared copies do not.
    let on_machine = weights.bytes().saturating_sub(weights_on_gpus);
    let copied = bytes_of(&|buffer| !log_lines::is_mapped(buffer));
    pools.push(Pool {
        weights_bytes: if weights.shared {
            on_machine.saturating_sub(copied.saturating_sub(weights_on_gpus))
        } else {
            on_machine
        },
        compute_bytes: step.output + if on_cpu { step.compute } else { 0 },
        compute_bytes_per_cell: if on_cpu { step.per_cell } else { 0 },
        prefix_bytes: spec
            .prefix_cache_size
            .filter(|_| spec.prefix_caching)
            .unwrap_or(0),
        ..pool(MACHINE, available.machine, 1.0 - kv_on_gpus)
    });
    pools
}

/// Estimated sizes of the buffers of a step, in bytes.
pub(super) struct StepBuffers {
    /// On each device that has layers; independent of the size of the KV cache.
    compute: u64,
    /// On each device that has layers, per cell.
    per_cell: u64,
    /// In main memory: the logits of every sequence, kept until the next step.
    output: u64,
}

impl StepBuffers {
    pub(super) fn new(
        model: &Model,
        spec: &LlmEngineSpec,
        ubatch: u32,
        max_sequences: u32,
    ) -> Self {
        let (vocabulary, width) = (u64::from(model.n_vocab()), u64::from(model.n_embd()));
        // The mask of tokens and cells; plain attention also keeps a score for each head.
        let bytes_seen = match spec.plugin_config.flash_attention {
            FlashAttention::Off => 4 + 4 * u64::from(model.n_head()),
            FlashAttention::Auto | FlashAttention::On => 2,
        };
        // In a per-sequence KV cache, a token sees only the cells of its sequence.
        let streams = match spec.plugin_config.kv_unified {
            Some(false) => u64::from(max_sequences),
            Some(true) | None => 1,
        };
        // MTP layers have a context of their own.
        let contexts = if spec.plugin_config.mtp { 2 } else { 1 };
        Self {
            // Logits, and the widest activations, which are in the feed-forward layers.
            compute: contexts * u64::from(ubatch) * 4 * (vocabulary + 12 * width),
            per_cell: contexts * (u64::from(ubatch) * bytes_seen).div_ceil(streams),
            output: contexts * 4 * u64::from(max_sequences) * vocabulary,
        }
    }
}

/// Bytes of the keys and values of one token over all layers.
pub(super) fn bytes_per_cell(model: &Model, type_k: KvType, type_v: KvType) -> u64 {
    let heads = u64::from(model.n_head_kv().max(1));
    let default_length = u64::from(model.n_embd().max(1)) / u64::from(model.n_head().max(1));
    let length = |key: &str| model.number(key).unwrap_or(default_length);
    let bytes = |numbers: u64, number_type: KvType| {
        let (bytes, numbers_in_block) = number_type.block();
        (numbers * bytes).div_ceil(numbers_in_block)
    };
    u64::from(model.n_layer())
        * (bytes(heads * length("attention.key_length"), type_k)
            + bytes(heads * length("attention.value_length"), type_v))
}
