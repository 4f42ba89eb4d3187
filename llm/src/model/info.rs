//! Effective values of an engine: everything that was chosen at load, by the spec, the model or the
//! machine.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::settings::{AdapterSpec, KvType, Numa, ThreadPriority, VisionSpec};

/// The effective values of an engine. They do not change while it lives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LlmEngineInfo {
    /// Model name, from its file.
    pub model: String,
    /// Path of the model file.
    pub path: PathBuf,
    /// Maximum number of tokens of a sequence.
    pub context_length: u32,
    /// Maximum number of sequences that compute at the same time.
    pub max_num_seqs: u32,
    /// Maximum number of tokens in one step.
    pub max_num_batched_tokens: u32,
    /// True if long prompts are split over steps.
    pub dynamic_split_fuse: bool,
    /// Maximum number of requests that wait for their first admission.
    pub max_waiting: u32,
    /// KV cells of all sequences together.
    pub kv_cells: u32,
    /// Maximum host memory for the cells of finished sequences, in bytes; 0 if none are kept.
    pub prefix_cache_bytes: u64,
    /// Maximum host memory for checkpoints, in bytes; 0 if none are kept. Models with recurrent
    /// layers or sliding windows need them besides cells.
    pub checkpoint_cache_bytes: u64,
    /// Devices, weights and buffers, reported by the backend.
    #[serde(flatten)]
    pub backend: BackendInfo,
    /// The drafter: another model, or the model's own MTP layers; `None` if nothing drafts.
    pub draft: Option<DraftInfo>,
    /// LoRA adapters that requests can name.
    pub adapters: Vec<AdapterSpec>,
    /// The encoder of images and sounds; `None` if the model takes neither.
    pub vision: Option<VisionSpec>,
}

impl LlmEngineInfo {
    /// Logs the chosen values: one line with a field for each important value, and all values at
    /// debug level.
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

/// Joins the names of devices.
fn names(devices: &[DeviceInfo]) -> String {
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    names.join(", ")
}

/// Effective values of a draft model, or of the model's MTP layers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DraftInfo {
    /// Path of its file; empty without a file.
    pub path: PathBuf,
    /// True if the model's own MTP layers draft.
    pub mtp: bool,
    /// Maximum number of tokens of a sequence that drafts.
    pub context_length: u32,
    /// Maximum number of sequences that have cells at the same time.
    pub max_num_seqs: u32,
    /// Maximum number of tokens computed at once.
    pub max_num_batched_tokens: u32,
    /// KV cells of all sequences together.
    pub kv_cells: u32,
    /// Devices, weights and buffers, reported by the backend.
    #[serde(flatten)]
    pub backend: BackendInfo,
}

/// Effective values of a backend.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BackendInfo {
    /// Name of the backend, such as `llama.cpp`.
    pub backend: &'static str,
    /// The weights; `None` for a backend without weights.
    pub weights: Option<WeightsInfo>,
    /// The KV cache; `None` for a backend that only counts cells.
    pub kv: Option<KvInfo>,
    /// Threads and kernels of steps; `None` for a backend that computes nothing.
    pub compute: Option<ComputeInfo>,
    /// Kernels of this project that multiply by the weights; `None` if llama.cpp computes all
    /// products.
    pub kernels: Option<KernelsInfo>,
    /// Devices that hold a part of the model.
    pub devices: Vec<DeviceInfo>,
    /// Allocated memory, by content and device.
    pub buffers: Vec<BufferInfo>,
}

/// The weights of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WeightsInfo {
    /// The model's architecture, such as `qwen2`.
    pub architecture: String,
    /// The type of most weights, such as `Q8_0`.
    pub quantization: String,
    /// Number of parameters of the model.
    pub parameters: u64,
    /// Size of the weights in the file, in bytes.
    pub bytes: u64,
    /// Context that the model was trained for, in tokens.
    pub trained_context: u32,
    /// True if another engine had loaded the weights, and shares them.
    pub shared: bool,
}

/// Matrices of a model that the kernels of this project use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelsInfo {
    /// Instruction set that the kernels use.
    pub instructions: &'static str,
    /// Number of matrices that are packed for them.
    pub matrices: u32,
    /// Size of the packed matrices in bytes. They are not mapped from the file.
    pub bytes: u64,
    /// Number of matrices in main memory that are left to llama.cpp, by their type.
    pub left: BTreeMap<String, u32>,
}

/// The KV cache of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KvInfo {
    /// Size of one cell over all layers, in bytes.
    pub bytes_per_cell: u64,
    /// Size of all cells, in bytes.
    pub bytes: u64,
    /// Size of the recurrent states of all sequences in bytes, including those that drafts go back
    /// to; 0 for models without recurrent layers.
    pub state_bytes: u64,
    /// Number type of the cached keys.
    pub type_k: KvType,
    /// Number type of the cached values.
    pub type_v: KvType,
    /// True if the KV cache is unified; false if each sequence has its own.
    pub unified: bool,
    /// Limit that decided the number of cells, as text.
    pub bound: String,
}

/// Threads, sizes and kernels with which steps are computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComputeInfo {
    /// Number of tokens computed at once inside a step.
    pub ubatch: u32,
    /// Number of threads that decode.
    pub threads: u32,
    /// Number of threads that process prompts.
    pub batch_threads: u32,
    /// Numbers of the CPUs that the threads run on; empty for all.
    pub cpu_affinity: Vec<u32>,
    /// True if each thread has one of these CPUs to itself.
    pub cpu_strict: bool,
    /// Scheduling class of the threads.
    pub thread_priority: ThreadPriority,
    /// Distribution of the threads over NUMA nodes.
    pub numa: Numa,
    /// True if the fused kernel computes attention.
    pub flash_attention: bool,
    /// Instruction sets and libraries in use.
    pub features: String,
}

/// A device that holds a part of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceInfo {
    /// Name of the device, such as `CPU` or `CUDA0`.
    pub name: String,
    /// Description of the device, as ggml reports it; empty if unknown.
    pub description: String,
    /// Number of the model's layers on the device.
    pub layers: u32,
}

/// A block of memory allocated for a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BufferInfo {
    /// Content of the block: `weights`, `kv`, `output` or `compute`.
    pub content: &'static str,
    /// Type of memory, such as `CPU_Mapped`.
    pub memory: String,
    /// Size of the block, in bytes.
    pub bytes: u64,
}

/// Formats a number of bytes for people, in MiB, rounded up.
pub(crate) struct Mebibytes(pub(crate) u64);

impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB", self.0.div_ceil(1 << 20))
    }
}
