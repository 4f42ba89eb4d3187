//! The knobs of llama.cpp in a graph's `plugin_config`: their names, types, defaults and ranges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::knob_types::{
    CpuKernels, FlashAttention, KvType, Numa, Number, RopeScaling, SplitMode, TensorOverride,
    ThreadPriority,
};
use super::{Device, SpecError};
use crate::protocol::SpeculationParams;

/// Most threads that llama.cpp runs, and most CPUs it can name.
const MAX_THREADS: u32 = 512;
/// Most GPUs that a model can be split over.
const MAX_GPUS: usize = 16;

/// Knobs of llama.cpp, as the JSON object in the graph's `plugin_config`. Unknown names are errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PluginConfig {
    /// Threads that decode. The default is the physical cores that this process may use, or what
    /// its CPU quota allows if that is less.
    pub threads: Option<u32>,
    /// Threads that process prompts. The default is `threads`.
    pub batch_threads: Option<u32>,
    /// CPUs that compute, by their numbers. Threads and other programs may still use them.
    pub cpu_affinity: Option<Vec<u32>>,
    /// Gives each thread one CPU of `cpu_affinity`, or of all that this process may use, instead of
    /// all of them. The default is `true` where there is one thread for each of these CPUs, no GPU
    /// takes part, and `numa` is `off`.
    pub cpu_strict: Option<bool>,
    /// How the system schedules the threads that compute. `low` lets every other thread go first;
    /// what is above `normal` is real-time and needs the right to it.
    pub thread_priority: ThreadPriority,
    /// How threads are spread over the nodes of a machine with several memories. The same for all
    /// models of a process.
    pub numa: Option<Numa>,
    /// Most tokens computed at once inside a step. The default is 512, and it is never more than
    /// `max_num_batched_tokens`.
    pub ubatch: Option<u32>,
    /// Flash attention.
    pub flash_attention: FlashAttention,
    /// Type of the cached keys.
    pub kv_type_k: KvType,
    /// Type of the cached values. Quantized types need flash attention.
    pub kv_type_v: KvType,
    /// A unified KV cache for all sequences (`true`), or a KV cache for each of the `max_num_seqs`
    /// (`false`). Without it, sequences have KV caches of their own where there are cells enough to
    /// give each a whole context: what a sequence computes then does not depend on which others are
    /// there.
    pub kv_unified: Option<bool>,
    /// Drafts tokens by prompt lookup, for requests that do not say otherwise.
    pub prompt_lookup: bool,
    /// Drafts tokens with the layers that the model has for that (MTP), for requests that do not say
    /// otherwise.
    pub mtp: bool,
    /// Drafts only where that saves time. The default is `true`. With `false`, requests draft as many
    /// tokens as they ask for, whatever that costs: it shows how often drafts come true.
    pub draft_control: Option<bool>,
    /// Earlier states that a sequence of a hybrid model keeps, so that it can go back behind as many
    /// wrong drafts: its drafts are at most so long, 0 to 32. Each takes the memory of one state, for
    /// each of the `max_num_seqs`. The default is 5 where requests draft unless they say otherwise,
    /// by `prompt_lookup`, `mtp` or a draft model, and 0 elsewhere.
    pub rollback_states: Option<u32>,
    /// Gives layers with a sliding window as many cells as the others. The default is `true`; with
    /// `false`, they take less memory than is counted for them. Prefixes are shared either way.
    pub swa_full: Option<bool>,
    /// Maps the model file instead of reading it. The default is `true`.
    pub mmap: Option<bool>,
    /// Keeps the model's pages in memory.
    pub mlock: bool,
    /// Puts weights and KV cells in main memory in pages of 2 MiB, where the system allows it
    /// (Linux): weights that are packed for the CPU kernels at once, other weights once the model
    /// is loaded, and KV cells once they are used. The default is `true`.
    pub huge_pages: Option<bool>,
    /// Products of matrices in main memory.
    pub cpu_kernels: CpuKernels,
    /// Layers on the GPU; all of them without it.
    pub gpu_layers: Option<u32>,
    /// How the model is divided over several GPUs. The default is `layer`.
    pub split_mode: Option<SplitMode>,
    /// The GPU of a model that is not divided (`split_mode` `none`), by its number.
    pub main_gpu: Option<u32>,
    /// Share of the model for each GPU, in any unit: `[3, 1]` puts three quarters on the first. The
    /// default is by free memory.
    pub tensor_split: Option<Vec<Number>>,
    /// Buffers for tensors by name, as `pattern=buffer`: `blk\\.[0-9]+\\.ffn_.*=CPU`. The first
    /// pattern that is found in a name decides.
    pub override_tensor: Option<Vec<TensorOverride>>,
    /// Keeps the KV cache on the GPU with the layers. The default is `true` where there is a GPU.
    pub offload_kqv: Option<bool>,
    /// Computes large batches on the GPU even for layers in main memory. The default is `true`
    /// where there is a GPU.
    pub op_offload: Option<bool>,
    /// How positions beyond the trained context are scaled. The default is what the model says.
    pub rope_scaling: Option<RopeScaling>,
    /// Base frequency of the rotary positions. The default is what the model says.
    pub rope_freq_base: Option<Number>,
    /// Scale of the rotary frequencies: 0.5 doubles the context. The default is what the model
    /// says.
    pub rope_freq_scale: Option<Number>,
    /// `YaRN`: how far extrapolation is mixed in, from 0 to 1. The default is what the model says.
    pub yarn_ext_factor: Option<Number>,
    /// `YaRN`: scale of the attention's magnitude. The default is what the model says.
    pub yarn_attn_factor: Option<Number>,
    /// `YaRN`: rotations above which a dimension is not interpolated. The default is what the model
    /// says.
    pub yarn_beta_fast: Option<Number>,
    /// `YaRN`: rotations below which a dimension is interpolated. The default is what the model
    /// says.
    pub yarn_beta_slow: Option<Number>,
    /// `YaRN`: the context that the model was trained for. The default is what the model says.
    pub yarn_orig_ctx: Option<u32>,
}

impl PluginConfig {
    /// Checks what the types do not say.
    pub(crate) fn validate(&self, device: Device) -> Result<(), SpecError> {
        self.check_ranges()?;
        self.check_cpus()?;
        self.check_gpus(device)?;
        if self.prompt_lookup && self.mtp {
            return Err(SpecError::OutOfRange {
                field: "mtp",
                message: "says where all requests take drafts from, and so does `prompt_lookup`: choose one".to_owned(),
            });
        }
        if self.kv_type_v.is_quantized() && self.flash_attention == FlashAttention::Off {
            return Err(SpecError::OutOfRange {
                field: "kv_type_v",
                message: format!("`{}` needs flash attention, which is off", self.kv_type_v),
            });
        }
        Ok(())
    }

    fn check_ranges(&self) -> Result<(), SpecError> {
        let whole = [
            ("threads", self.threads, 1, MAX_THREADS),
            ("batch_threads", self.batch_threads, 1, MAX_THREADS),
            ("ubatch", self.ubatch, 1, u32::MAX),
            (
                "rollback_states",
                self.rollback_states,
                0,
                SpeculationParams::MAX_DRAFTS,
            ),
            ("yarn_orig_ctx", self.yarn_orig_ctx, 1, u32::MAX),
        ];
        for (field, value, least, most) in whole {
            if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
                let message = if most == u32::MAX {
                    format!("must be at least {least}, not {value}")
                } else {
                    format!("must be from {least} to {most}, not {value}")
                };
                return Err(SpecError::OutOfRange { field, message });
            }
        }
        let positive = [
            ("rope_freq_base", self.rope_freq_base),
            ("rope_freq_scale", self.rope_freq_scale),
            ("yarn_attn_factor", self.yarn_attn_factor),
            ("yarn_beta_fast", self.yarn_beta_fast),
            ("yarn_beta_slow", self.yarn_beta_slow),
        ];
        for (field, value) in positive {
            if let Some(value) = value.filter(|value| value.get() <= 0.0) {
                let message = format!("must be above 0, not {}", value.get());
                return Err(SpecError::OutOfRange { field, message });
            }
        }
        if let Some(factor) = self.yarn_ext_factor
            && !(0.0..=1.0).contains(&factor.get())
        {
            return Err(SpecError::OutOfRange {
                field: "yarn_ext_factor",
                message: format!("must be from 0 to 1, not {}", factor.get()),
            });
        }
        Ok(())
    }

    fn check_cpus(&self) -> Result<(), SpecError> {
        let wrong = |field, message: String| Err(SpecError::OutOfRange { field, message });
        let Some(cpus) = &self.cpu_affinity else {
            return Ok(());
        };
        if cpus.is_empty() {
            return wrong("cpu_affinity", "must name at least one CPU".to_owned());
        }
        match cpus.iter().find(|cpu| **cpu >= MAX_THREADS) {
            Some(cpu) => wrong(
                "cpu_affinity",
                format!("must name CPUs below {MAX_THREADS}, not {cpu}"),
            ),
            None => Ok(()),
        }
    }

    /// Those that are set and say something only where a GPU takes part.
    pub(crate) fn for_gpus(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            (
                "gpu_layers",
                self.gpu_layers.is_some_and(|layers| layers > 0),
            ),
            ("split_mode", self.split_mode.is_some()),
            ("main_gpu", self.main_gpu.is_some()),
            ("tensor_split", self.tensor_split.is_some()),
            ("offload_kqv", self.offload_kqv == Some(true)),
            ("op_offload", self.op_offload == Some(true)),
        ];
        let set = given.into_iter().filter(|(_, given)| *given);
        set.map(|(field, _)| field)
    }

    fn check_gpus(&self, device: Device) -> Result<(), SpecError> {
        let wrong = |field, message: &str| {
            let message = message.to_owned();
            Err(SpecError::OutOfRange { field, message })
        };
        if device == Device::Cpu
            && let Some(field) = self.for_gpus().next()
        {
            return wrong(field, "needs a GPU, and `device` is `CPU`");
        }
        let divides = ["split_mode", "main_gpu", "tensor_split"];
        if matches!(device, Device::Gpu(_))
            && let Some(field) = self.for_gpus().find(|field| divides.contains(field))
        {
            return wrong(
                field,
                "chooses among several GPUs, and `device` names one: use `AUTO`",
            );
        }
        if self.main_gpu.is_some() && self.split_mode != Some(SplitMode::None) {
            return wrong("main_gpu", "needs `\"split_mode\": \"none\"`");
        }
        if let Some(shares) = &self.tensor_split {
            if shares.is_empty() || shares.len() > MAX_GPUS {
                return wrong("tensor_split", "must have from 1 to 16 shares");
            }
            if shares.iter().any(|share| share.get() < 0.0)
                || shares.iter().all(|share| share.get() == 0.0)
            {
                return wrong(
                    "tensor_split",
                    "must have shares of 0 or more, and one above 0",
                );
            }
            if self.split_mode == Some(SplitMode::None) {
                return wrong(
                    "tensor_split",
                    "divides a model, and `split_mode` is `none`",
                );
            }
        }
        Ok(())
    }
}
