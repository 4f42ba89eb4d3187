//! The effective settings of an engine: every value that was chosen at load, by the spec, the model
//! or the machine.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::spec::{AdapterSpec, KvType, Numa, ThreadPriority, VisionSpec};

/// The effective values of an engine. They do not change while it lives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LlmEngineInfo {
    /// The model's name.
    pub model: String,
    /// The model's file.
    pub path: PathBuf,
    /// Most tokens of a sequence.
    pub context_length: u32,
    /// Most sequences that compute at the same time.
    pub max_num_seqs: u32,
    /// Most tokens of one step.
    pub max_num_batched_tokens: u32,
    /// Whether prompts are split over steps.
    pub dynamic_split_fuse: bool,
    /// Most requests that wait for their first admission.
    pub max_waiting: u32,
    /// KV cells of all sequences together.
    pub kv_cells: u32,
    /// Most bytes of host memory for the cells of finished sequences; 0 if none are kept.
    pub prefix_cache_bytes: u64,
    /// Most bytes of host memory for checkpoints, which models with recurrent layers or sliding
    /// windows need beside cells; 0 if none are kept.
    pub checkpoint_cache_bytes: u64,
    /// What the backend says of itself.
    #[serde(flatten)]
    pub backend: BackendInfo,
    /// The model that drafts: another one, or its own MTP layers.
    pub draft: Option<DraftInfo>,
    /// Adapters of the model that requests can name.
    pub adapters: Vec<AdapterSpec>,
    /// What reads images and sounds for the model; none if it takes neither.
    pub vision: Option<VisionSpec>,
}

impl LlmEngineInfo {
    /// Logs what was chosen: a line with a field for each value, and all of it for people who look
    /// for a fault.
    pub(crate) fn log(&self) {
        let (weights, kv) = (self.backend.weights.as_ref(), self.backend.kv.as_ref());
        let compute = self.backend.compute.as_ref();
        tracing::info!(
            model = self.model,
            path = %self.path.display(),
            architecture = weights.map(|weights| weights.architecture.as_str()),
            quantization = weights.map(|weights| weights.quantization.as_str()),
            parameters = weights.map(|weights| weights.parameters),
            context_length = self.context_length,
            max_num_seqs = self.max_num_seqs,
            max_num_batched_tokens = self.max_num_batched_tokens,
            max_waiting = self.max_waiting,
            kv_cells = self.kv_cells,
            kv_bytes = kv.map(|kv| kv.bytes),
            prefix_cache_bytes = self.prefix_cache_bytes,
            threads = compute.map(|compute| compute.threads),
            devices = %names(&self.backend.devices),
            draft = self.draft.as_ref().map(|draft| draft.path.display().to_string()),
            adapters = self.adapters.len(),
            media = self.vision.is_some(),
            "engine loaded"
        );
        tracing::debug!("engine\n{self}");
    }
}

/// The names of devices.
fn names(devices: &[DeviceInfo]) -> String {
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    names.join(", ")
}

/// What a draft model runs with, or the MTP layers of the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DraftInfo {
    /// Its file; empty if it is not from a file.
    pub path: PathBuf,
    /// Whether the model's own MTP layers draft.
    pub mtp: bool,
    /// Most tokens of a sequence that drafts.
    pub context_length: u32,
    /// Sequences that have cells at the same time.
    pub max_num_seqs: u32,
    /// Most tokens computed at once.
    pub max_num_batched_tokens: u32,
    /// KV cells of all sequences together.
    pub kv_cells: u32,
    /// What the backend says of itself.
    #[serde(flatten)]
    pub backend: BackendInfo,
}

/// What a backend runs with.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BackendInfo {
    /// The backend's name.
    pub backend: &'static str,
    /// The weights; `None` for a backend without.
    pub weights: Option<WeightsInfo>,
    /// The KV cache; `None` for a backend that only counts cells.
    pub kv: Option<KvInfo>,
    /// How steps are computed; `None` for a backend that computes nothing.
    pub compute: Option<ComputeInfo>,
    /// The kernels of this project that multiply by its weights; `None` where llama.cpp does it
    /// alone.
    pub kernels: Option<KernelsInfo>,
    /// The devices that have a part of the model.
    pub devices: Vec<DeviceInfo>,
    /// The memory that was allocated, by content and device.
    pub buffers: Vec<BufferInfo>,
}

/// The weights of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WeightsInfo {
    /// The model's architecture, such as `qwen2`.
    pub architecture: String,
    /// The type of most weights, such as `Q8_0`.
    pub quantization: String,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes of the weights in the file.
    pub bytes: u64,
    /// The context the model was trained for, in tokens.
    pub trained_context: u32,
    /// Whether another engine had loaded them, and uses them too.
    pub shared: bool,
}

/// What the kernels of this project have of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelsInfo {
    /// The instructions they use.
    pub instructions: &'static str,
    /// Matrices that are packed for them.
    pub matrices: u32,
    /// Bytes of the packed matrices, which are not mapped from the file.
    pub bytes: u64,
    /// Matrices in main memory that are left to llama.cpp, by the type of their numbers.
    pub left: BTreeMap<String, u32>,
}

/// The KV cache of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KvInfo {
    /// Bytes of one cell over all layers.
    pub bytes_per_cell: u64,
    /// Bytes of all cells.
    pub bytes: u64,
    /// Bytes of what recurrent layers keep of all sequences, the states that drafts go back to
    /// included; 0 for models without such layers.
    pub state_bytes: u64,
    /// Type of the keys.
    pub type_k: KvType,
    /// Type of the values.
    pub type_v: KvType,
    /// Whether the KV cache is unified, or each sequence has its own.
    pub unified: bool,
    /// What bounds the number of cells.
    pub bound: String,
}

/// How steps are computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComputeInfo {
    /// Tokens computed at once inside a step.
    pub ubatch: u32,
    /// Threads that decode.
    pub threads: u32,
    /// Threads that process prompts.
    pub batch_threads: u32,
    /// CPUs that the threads run on; empty for all.
    pub cpu_affinity: Vec<u32>,
    /// Whether each thread has one of them.
    pub cpu_strict: bool,
    /// How the system schedules them.
    pub thread_priority: ThreadPriority,
    /// How they are spread over the machine's memories.
    pub numa: Numa,
    /// Whether attention is computed by the fused kernel.
    pub flash_attention: bool,
    /// Instruction sets and libraries that are used.
    pub features: String,
}

/// A device that has a part of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceInfo {
    /// Its name, such as `CPU` or `CUDA0`.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Layers of the model on it.
    pub layers: u32,
}

/// Memory that was allocated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BufferInfo {
    /// `weights`, `kv`, `output` or `compute`.
    pub content: &'static str,
    /// The kind of memory, such as `CPU_Mapped`.
    pub memory: String,
    /// Its size.
    pub bytes: u64,
}

/// One line for each concern.
impl fmt::Display for LlmEngineInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "model     {} ({})", self.model, self.path.display())?;
        if let Some(weights) = &self.backend.weights {
            writeln!(f, "weights   {weights}")?;
        }
        for device in &self.backend.devices {
            writeln!(
                f,
                "device    {} ({}), {} layers",
                device.name, device.description, device.layers
            )?;
        }
        writeln!(
            f,
            "sequences {} at once, {} tokens each at most, {} more may wait",
            self.max_num_seqs, self.context_length, self.max_waiting
        )?;
        if let Some(kv) = &self.backend.kv {
            writeln!(
                f,
                "kv cache  {} cells of {} bytes ({}, {}), {}, {}; {}",
                self.kv_cells,
                kv.bytes_per_cell,
                kv.type_k,
                kv.type_v,
                Mebibytes(kv.bytes),
                if kv.unified {
                    "unified"
                } else {
                    "per sequence"
                },
                kv.bound
            )?;
            if kv.state_bytes > 0 {
                let size = Mebibytes(kv.state_bytes);
                writeln!(f, "states    {size} of recurrent layers")?;
            }
        } else {
            writeln!(f, "kv cache  {} cells", self.kv_cells)?;
        }
        write!(
            f,
            "prefixes  {} of host memory for finished sequences",
            Mebibytes(self.prefix_cache_bytes)
        )?;
        if self.checkpoint_cache_bytes > 0 {
            let size = Mebibytes(self.checkpoint_cache_bytes);
            write!(f, ", {size} for checkpoints")?;
        }
        writeln!(f)?;
        write!(
            f,
            "step      {} tokens at most{}",
            self.max_num_batched_tokens,
            if self.dynamic_split_fuse {
                ", prompts are split"
            } else {
                ", prompts are whole"
            }
        )?;
        if let Some(compute) = &self.backend.compute {
            write!(f, ", {} at once", compute.ubatch)?;
        }
        if let Some(draft) = &self.draft {
            write!(f, "\n{draft}")?;
        }
        for adapter in &self.adapters {
            let (name, scale, path) = (&adapter.name, adapter.scale.get(), adapter.path.display());
            write!(f, "\nadapter   {name}, times {scale} ({path})")?;
        }
        if let Some(vision) = &self.vision {
            let (path, size) = (vision.mmproj.display(), Mebibytes(vision.cache_size));
            write!(
                f,
                "\nmedia     by {path}, {size} of host memory for what is encoded"
            )?;
        }
        let Some(compute) = &self.backend.compute else {
            return Ok(());
        };
        writeln!(f)?;
        write!(
            f,
            "compute   {} threads, {} for prompts",
            compute.threads, compute.batch_threads
        )?;
        if !compute.cpu_affinity.is_empty() {
            write!(f, " on CPUs {:?}", compute.cpu_affinity)?;
        }
        if compute.cpu_strict {
            write!(f, ", one each")?;
        }
        writeln!(
            f,
            ", priority {}, NUMA {}, flash attention {}",
            compute.thread_priority,
            compute.numa,
            if compute.flash_attention { "on" } else { "off" }
        )?;
        if let Some(kernels) = &self.backend.kernels {
            writeln!(f, "kernels   {kernels}")?;
        }
        writeln!(f, "memory    {}", buffers(&self.backend.buffers))?;
        write!(f, "features  {}", compute.features)
    }
}

/// Two lines, or one for a backend without weights.
impl fmt::Display for DraftInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "drafts    by {}{}, {} sequences, {} tokens each at most, {} KV cells, {} tokens at once",
            if self.mtp { "the MTP layers of " } else { "" },
            self.path.display(),
            self.max_num_seqs,
            self.context_length,
            self.kv_cells,
            self.max_num_batched_tokens
        )?;
        match &self.backend.weights {
            Some(weights) => write!(
                f,
                "\n          {weights}; {}",
                buffers(&self.backend.buffers)
            ),
            None => Ok(()),
        }
    }
}

impl fmt::Display for WeightsInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}, {} parameters, {}{}",
            self.architecture,
            self.quantization,
            Rounded(self.parameters),
            Mebibytes(self.bytes),
            if self.shared {
                ", shared with another engine"
            } else {
                ""
            }
        )
    }
}

impl fmt::Display for KernelsInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} for {} matrices, {} packed",
            self.instructions,
            self.matrices,
            Mebibytes(self.bytes)
        )?;
        if self.left.is_empty() {
            return Ok(());
        }
        let left = self.left.iter();
        let left: Vec<_> = left
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        write!(f, "; llama.cpp's for {}", left.join(", "))
    }
}

/// Buffers in one line.
fn buffers(buffers: &[BufferInfo]) -> String {
    let buffers = buffers.iter().map(|buffer| {
        let bytes = Mebibytes(buffer.bytes);
        format!("{} {bytes} ({})", buffer.content, buffer.memory)
    });
    buffers.collect::<Vec<_>>().join(", ")
}

/// A large number for people, such as `7.62 billion`.
struct Rounded(u64);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0 as f64;
        let scales = [(1e9, "billion"), (1e6, "million"), (1e3, "thousand")];
        match scales.iter().find(|(scale, _)| number >= *scale) {
            Some((scale, name)) => write!(f, "{:.2} {name}", number / scale),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A number of bytes for people.
pub(crate) struct Mebibytes(pub(crate) u64);

impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB", self.0.div_ceil(1 << 20))
    }
}
