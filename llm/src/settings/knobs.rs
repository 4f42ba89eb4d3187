//! Options of llama.cpp in a graph's `plugin_config`: their names, types, defaults and ranges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::knob_types::{
    CpuKernels, FlashAttention, KvType, Numa, Number, RopeScaling, SplitMode, TensorOverride,
    ThreadPriority,
};
use super::{Device, SpecError};
use crate::protocol::SpeculationParams;

/// Maximum number of threads of llama.cpp, and of CPUs that it can name.
const MAX_THREADS: u32 = 512;
/// Maximum number of GPUs that a model can be split over.
const MAX_GPUS: usize = 16;

/// Options of llama.cpp, as the JSON object in the graph's `plugin_config`. Unknown names are
/// errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PluginConfig {
    /// Number of threads that decode. The default is the number of physical cores that this process
    /// may use, or fewer if its CPU quota is lower.
    pub threads: Option<u32>,
    /// Number of threads that process prompts. The default is `threads`.
    pub batch_threads: Option<u32>,
    /// Numbers of the CPUs that compute. The default is all CPUs that this process may use. Other
    /// threads and programs may still use them.
    pub cpu_affinity: Option<Vec<u32>>,
    /// Gives each thread one CPU of its own, of `cpu_affinity` or of all that this process may use.
    /// The default is `true` if there are as many threads as CPUs, no GPU takes part, and `numa` is
    /// `off`.
    pub cpu_strict: Option<bool>,
    /// Scheduling of the compute threads. `low` is below all other threads; values above `normal`
    /// are real-time and need permission. The default is `normal`.
    pub thread_priority: ThreadPriority,
    /// Distribution of threads over the NUMA nodes of the machine. The first model that a process
    /// loads decides for all; later models with another value are refused. The default is `off`.
    pub numa: Option<Numa>,
    /// Maximum number of tokens computed at once inside a step. The default is 512;
    /// `max_num_batched_tokens` also limits it.
    pub ubatch: Option<u32>,
    /// Use of the fused attention kernel. The default is `auto`.
    pub flash_attention: FlashAttention,
    /// Number type of the cached keys. The default is `f16`.
    pub kv_type_k: KvType,
    /// Number type of the cached values. Quantized types need flash attention. The default is
    /// `f16`.
    pub kv_type_v: KvType,
    /// Layout of the KV cache: one for all sequences (`true`), or one for each of the
    /// `max_num_seqs` (`false`). By default, sequences have their own KV caches if there are enough
    /// cells to give each a whole context. Then the result of a sequence does not depend on the
    /// others in the batch.
    pub kv_unified: Option<bool>,
    /// Drafts tokens by prompt lookup, unless a request says otherwise.
    pub prompt_lookup: bool,
    /// Drafts tokens with the model's MTP layers, unless a request says otherwise.
    pub mtp: bool,
    /// Drafts only where that saves time. The default is `true`. With `false`, requests draft as
    /// many tokens as they ask for, even if that is slower; use it to measure how often drafts are
    /// right.
    pub draft_control: Option<bool>,
    /// Number of earlier states that a sequence of a hybrid model keeps, 0 to 32. It limits the
    /// length of drafts, because the sequence must be able to go back to before a wrong one. Each
    /// takes the memory of one state, for each of the `max_num_seqs`. The default is 5 if requests
    /// draft by default (`prompt_lookup`, `mtp` or a draft model), otherwise 0.
    pub rollback_states: Option<u32>,
    /// Gives layers with a sliding window as many cells as the others. The default is `true`. With
    /// `false`, these layers use less memory, but as much is reserved. Prefixes are shared either
    /// way.
    pub swa_full: Option<bool>,
    /// Maps the model file instead of reading it. The default is `true`.
    pub mmap: Option<bool>,
    /// Locks the model's pages in memory. The default is `false`.
    pub mlock: bool,
    /// Puts weights and KV cells in main memory in pages of 2 MiB, if the system allows it (Linux).
    /// Weights that are packed for the CPU kernels get them at once, other weights after the load,
    /// and KV cells once they are used. The default is `true`.
    pub huge_pages: Option<bool>,
    /// Kernels for products of quantized matrices in main memory: those of this project or of
    /// llama.cpp. The default is `auto`: those of this project if the processor has AVX2, but with
    /// a GPU only if `override_tensor` puts weights on the `CPU`.
    pub cpu_kernels: CpuKernels,
    /// Number of layers on the GPU. The default is all.
    pub gpu_layers: Option<u32>,
    /// Division of the model over several GPUs. The default is `layer`.
    pub split_mode: Option<SplitMode>,
    /// Number of the GPU for a model that is not divided (`split_mode` `none`).
    pub main_gpu: Option<u32>,
    /// Share of the model for each GPU, in any unit: `[3, 1]` puts three quarters on the first. The
    /// default is by free memory.
    pub tensor_split: Option<Vec<Number>>,
    /// Buffers for tensors by name, as `pattern=buffer`: `blk\\.[0-9]+\\.ffn_.*=CPU`. The first
    /// pattern found in a tensor's name applies.
    pub override_tensor: Option<Vec<TensorOverride>>,
    /// Keeps the KV cache on the GPU with the layers. The default is `true` if there is a GPU.
    pub offload_kqv: Option<bool>,
    /// Computes large batches on the GPU even for layers in main memory. The default is `true` if
    /// there is a GPU.
    pub op_offload: Option<bool>,
    /// Scaling of positions beyond the trained context. The default is the model's own.
    pub rope_scaling: Option<RopeScaling>,
    /// Base frequency of the rotary positions. The default is the model's own.
    pub rope_freq_base: Option<Number>,
    /// Scale of the rotary frequencies: 0.5 doubles the context. The default is the model's own.
    pub rope_freq_scale: Option<Number>,
    /// `YaRN`: share of extrapolation, from 0 to 1. The default is the model's own.
    pub yarn_ext_factor: Option<Number>,
    /// `YaRN`: scale of the attention's magnitude. The default is the model's own.
    pub yarn_attn_factor: Option<Number>,
    /// `YaRN`: rotations above which a dimension is not interpolated. The default is the model's
    /// own.
    pub yarn_beta_fast: Option<Number>,
    /// `YaRN`: rotations below which a dimension is interpolated. The default is the model's own.
    pub yarn_beta_slow: Option<Number>,
    /// `YaRN`: context that the model was trained for, in tokens. The default is the model's own.
    pub yarn_orig_ctx: Option<u32>,
}

impl PluginConfig {
    /// Returns the name of the option by which requests draft unless they say otherwise.
    pub(super) fn drafter(&self) -> Option<&'static str> {
        let lookup = self.prompt_lookup.then_some("prompt_lookup");
        lookup.or(self.mtp.then_some("mtp"))
    }

    /// Checks what the types do not enforce.
    pub(crate) fn validate(&self, device: Device) -> Result<(), SpecError> {
        self.check_ranges()?;
        self.check_cpus()?;
        self.check_gpus(device)?;
        if self.prompt_lookup && self.mtp {
            return Err(SpecError::out_of_range(
                "mtp",
                "sets the source of drafts, and so does `prompt_lookup`: set only one",
            ));
        }
        if self.kv_type_v.is_quantized() && self.flash_attention == FlashAttention::Off {
            return Err(SpecError::out_of_range(
                "kv_type_v",
                format!("`{}` needs flash attention, which is off", self.kv_type_v),
            ));
        }
        Ok(())
    }

    fn check_ranges(&self) -> Result<(), SpecError> {
        let most_drafts = SpeculationParams::MAX_DRAFTS;
        let whole = [
            ("threads", self.threads, 1, MAX_THREADS),
            ("batch_threads", self.batch_threads, 1, MAX_THREADS),
            ("ubatch", self.ubatch, 1, u32::MAX),
            ("rollback_states", self.rollback_states, 0, most_drafts),
            ("yarn_orig_ctx", self.yarn_orig_ctx, 1, u32::MAX),
        ];
        for (field, value, least, most) in whole {
            if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
                let message = if most == u32::MAX {
                    format!("must be at least {least}, not {value}")
                } else {
                    format!("must be from {least} to {most}, not {value}")
                };
                return Err(SpecError::out_of_range(field, message));
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
                return Err(SpecError::out_of_range(field, message));
            }
        }
        if let Some(factor) = self.yarn_ext_factor
            && !(0.0..=1.0).contains(&factor.get())
        {
            return Err(SpecError::out_of_range(
                "yarn_ext_factor",
                format!("must be from 0 to 1, not {}", factor.get()),
            ));
        }
        Ok(())
    }

    fn check_cpus(&self) -> Result<(), SpecError> {
        let wrong = |message| Err(SpecError::out_of_range("cpu_affinity", message));
        let Some(cpus) = &self.cpu_affinity else {
            return Ok(());
        };
        if cpus.is_empty() {
            return wrong("must name at least one CPU".to_owned());
        }
        match cpus.iter().find(|cpu| **cpu >= MAX_THREADS) {
            Some(cpu) => wrong(format!("must name CPUs below {MAX_THREADS}, not {cpu}")),
            None => Ok(()),
        }
    }

    /// Names the options that are set but only have an effect if a GPU takes part.
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
        let wrong = |field, message: &str| Err(SpecError::out_of_range(field, message));
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
