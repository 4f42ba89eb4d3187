//! llama.cpp: loads a GGUF file, sizes the KV cache for this machine, and computes batches.
//!
//! The context borrows the weights and is used on one thread only, so [`open`] keeps both on its stack while the engine runs. The
//! weights and the vocabulary in them are immutable and shared with every session.

use std::fs::File;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::{KvCacheType, LlamaContextParams};
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::{LlamaModelParams, LlamaSplitMode};
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::{
    DecodeError as LlamaDecodeError, LlamaBackendDeviceType, list_llama_ggml_backend_devices,
};

use super::{Backend, BatchToken, Capacity, DecodeError, Serve, Slot};
use crate::memory::{self, Bound, CacheRequest};
use crate::protocol::LoadError;
use crate::spec::{Device, EngineSpec, KvType};
use crate::vocab::Vocab;

mod ffi;
mod vocab;

use vocab::LlamaVocabulary;

/// Sequences that llama.cpp can tell apart in one cache.
const MAX_SEQUENCES: u32 = 256;
/// llama.cpp allocates cells in multiples of this.
const CELL_GRAIN: u32 = 256;
/// Tokens computed at once inside a step, unless the spec says otherwise.
const DEFAULT_UBATCH: u32 = 512;
/// More layers than any model has.
const ALL_LAYERS: u32 = 100_000;

/// The process-wide state of llama.cpp, initialised on first use.
static LLAMA: LazyLock<Result<LlamaBackend, String>> = LazyLock::new(|| {
    ffi::route_logs();
    let backend = LlamaBackend::init().map_err(|error| error.to_string())?;
    tracing::info!(features = %ffi::system_info(), "llama.cpp");
    Ok(backend)
});

fn llama(model: &Path) -> Result<&'static LlamaBackend, LoadError> {
    LLAMA.as_ref().map_err(|message| LoadError::Model {
        path: model.to_owned(),
        message: message.clone(),
    })
}

/// Loads the model and runs `serve` with a context on it.
pub(super) fn open(spec: &EngineSpec, serve: &mut Serve<'_>) -> Result<(), LoadError> {
    let model = Arc::new(load_model(spec)?);
    let plan = ContextPlan::new(spec, &model)?;
    let context = plan.create(spec, &model)?;
    let cells_per_sequence = plan.context_length.min(if plan.unified {
        context.n_ctx()
    } else {
        context.n_ctx() / plan.max_sequences
    });
    let capacity = Capacity {
        total_cells: context.n_ctx(),
        cells_per_sequence,
        max_sequences: plan.max_sequences,
        max_batch_tokens: spec.max_num_batched_tokens.min(context.n_batch()),
    };
    tracing::info!(
        kv_cells = capacity.total_cells,
        context = capacity.cells_per_sequence,
        max_sequences = capacity.max_sequences,
        batch_tokens = capacity.max_batch_tokens,
        threads = plan.threads,
        batch_threads = plan.batch_threads,
        unified = plan.unified,
        "model `{}` is ready",
        spec.model.display(),
    );
    let vocab = LlamaVocabulary::new(Arc::clone(&model), &spec.model, cells_per_sequence as usize);
    let mut backend = LlamaCpp {
        n_vocab: vocab.n_vocab(),
        batch: LlamaBatch::new(capacity.max_batch_tokens as usize, 1),
        context,
        capacity,
    };
    serve(&mut backend, Arc::new(vocab));
    Ok(())
}

/// Loads only the vocabulary of a model.
pub(super) fn open_vocab(path: &Path) -> Result<Arc<dyn Vocab>, LoadError> {
    let params = LlamaModelParams::default().with_vocab_only(true);
    let model = load_file(path, &params)?;
    // llama.cpp does not read the model's shape with the vocabulary alone, but keeps the metadata.
    let architecture = model
        .meta_val_str("general.architecture")
        .unwrap_or_default();
    let length = model.meta_val_str(&format!("{architecture}.context_length"));
    let context_length = length
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(i32::MAX as usize);
    Ok(Arc::new(LlamaVocabulary::new(
        Arc::new(model),
        path,
        context_length,
    )))
}

fn load_model(spec: &EngineSpec) -> Result<LlamaModel, LoadError> {
    let knobs = &spec.plugin_config;
    let params = LlamaModelParams::default()
        .with_use_mmap(knobs.mmap)
        .with_use_mlock(knobs.mlock);
    let params = match spec.device {
        Device::Cpu => params.with_n_gpu_layers(0),
        Device::Auto => params.with_n_gpu_layers(knobs.gpu_layers.unwrap_or(ALL_LAYERS)),
        Device::Gpu(number) => {
            let device = gpu(number)?;
            let wrong = |error: llama_cpp_2::LlamaCppError| LoadError::Spec {
                field: "device",
                message: error.to_string(),
            };
            params
                .with_devices(&[device])
                .map_err(wrong)?
                .with_split_mode(LlamaSplitMode::None)
                .with_n_gpu_layers(knobs.gpu_layers.unwrap_or(ALL_LAYERS))
        }
    };
    load_file(&spec.model, &params)
}

fn load_file(path: &Path, params: &LlamaModelParams) -> Result<LlamaModel, LoadError> {
    let llama = llama(path)?;
    File::open(path).map_err(|source| LoadError::Read {
        path: path.to_owned(),
        source,
    })?;
    let (model, complaints) =
        ffi::collect_errors(|| LlamaModel::load_from_file(llama, path, params));
    model.map_err(|error| LoadError::Model {
        path: path.to_owned(),
        message: complaints.unwrap_or_else(|| error.to_string()),
    })
}

/// llama.cpp's index of the GPU with this number.
fn gpu(number: u32) -> Result<usize, LoadError> {
    let is_gpu = |kind| {
        matches!(
            kind,
            LlamaBackendDeviceType::Gpu | LlamaBackendDeviceType::IntegratedGpu
        )
    };
    let gpus: Vec<_> = list_llama_ggml_backend_devices()
        .into_iter()
        .filter(|device| is_gpu(device.device_type))
        .collect();
    gpus.get(number as usize)
        .map(|device| device.index)
        .ok_or_else(|| LoadError::Spec {
            field: "device",
            message: format!(
                "`GPU.{number}` is not there: this build and machine have {} GPUs",
                gpus.len()
            ),
        })
}

/// The numbers a context is created with.
struct ContextPlan {
    cells: u32,
    context_length: u32,
    max_sequences: u32,
    threads: u32,
    batch_threads: u32,
    unified: bool,
}

impl ContextPlan {
    fn new(spec: &EngineSpec, model: &LlamaModel) -> Result<Self, LoadError> {
        let knobs = &spec.plugin_config;
        let max_sequences = spec.max_num_seqs.min(MAX_SEQUENCES);
        if max_sequences < spec.max_num_seqs {
            tracing::warn!(
                max_num_seqs = spec.max_num_seqs,
                effective = max_sequences,
                "llama.cpp batches at most 256 sequences"
            );
        }
        let context_length = spec
            .max_context
            .unwrap_or_else(|| model.n_ctx_train())
            .max(1);
        let request = CacheRequest {
            ceiling_gb: spec.cache_size,
            bytes_per_cell: bytes_per_cell(model, knobs.kv_type_k, knobs.kv_type_v),
            context: context_length,
            max_sequences,
            available_bytes: memory::available_bytes(),
        };
        let size = memory::cache_size(&request);
        tracing::info!(
            cache_size_gb = request.ceiling_gb,
            bytes_per_cell = request.bytes_per_cell,
            context = request.context,
            max_sequences = request.max_sequences,
            available_bytes = request.available_bytes,
            cells = size.cells,
            bytes = u64::from(size.cells) * request.bytes_per_cell,
            "the KV cache is bounded by {}",
            size.bound,
        );
        let whole_contexts = size.bound == Bound::Sequences;
        let unified = knobs.kv_unified.unwrap_or(!whole_contexts);
        let share = if unified {
            size.cells
        } else if whole_contexts {
            context_length.next_multiple_of(CELL_GRAIN)
        } else {
            size.cells / max_sequences
        };
        if share < CELL_GRAIN {
            let message = format!(
                "leaves {} KV cells of {} bytes, bounded by {}, fewer than {CELL_GRAIN}{}",
                size.cells,
                request.bytes_per_cell,
                size.bound,
                if unified { "" } else { " for each sequence" },
            );
            return Err(LoadError::Spec {
                field: "cache_size",
                message,
            });
        }
        let share = share / CELL_GRAIN * CELL_GRAIN;
        let threads = knobs.threads.unwrap_or_else(default_threads);
        Ok(Self {
            cells: if unified {
                share
            } else {
                share * max_sequences
            },
            context_length,
            max_sequences,
            threads,
            batch_threads: knobs.batch_threads.unwrap_or(threads),
            unified,
        })
    }

    fn create<'a>(
        &self,
        spec: &EngineSpec,
        model: &'a LlamaModel,
    ) -> Result<LlamaContext<'a>, LoadError> {
        let knobs = &spec.plugin_config;
        let ubatch = knobs
            .ubatch
            .unwrap_or(DEFAULT_UBATCH)
            .min(spec.max_num_batched_tokens);
        let on_cpu = spec.device == Device::Cpu;
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(self.cells))
            // llama.cpp wants room for one output of every sequence; the scheduler keeps to the spec's limit.
            .with_n_batch(spec.max_num_batched_tokens.max(self.max_sequences))
            .with_n_ubatch(ubatch)
            .with_n_seq_max(self.max_sequences)
            .with_n_threads(self.threads as i32)
            .with_n_threads_batch(self.batch_threads as i32)
            .with_flash_attention_policy(ffi::flash_attention(knobs.flash_attention))
            .with_type_k(cache_type(knobs.kv_type_k))
            .with_type_v(cache_type(knobs.kv_type_v))
            .with_kv_unified(self.unified)
            .with_offload_kqv(!on_cpu)
            .with_op_offload(!on_cpu)
            .with_no_perf(true);
        let (context, complaints) = ffi::collect_errors(|| {
            model
                .new_context(llama(&spec.model)?, params)
                .map_err(|error| LoadError::Model {
                    path: spec.model.clone(),
                    message: error.to_string(),
                })
        });
        context.map_err(|error| match complaints {
            Some(message) => LoadError::Model {
                path: spec.model.clone(),
                message,
            },
            None => error,
        })
    }
}

/// Bytes of the keys and values of one token over all layers.
fn bytes_per_cell(model: &LlamaModel, type_k: KvType, type_v: KvType) -> u64 {
    let heads = u64::from(model.n_head_kv().max(1));
    let default_length = model.n_embd().max(1) as u64 / u64::from(model.n_head().max(1));
    let architecture = model
        .meta_val_str("general.architecture")
        .unwrap_or_default();
    let length = |name: &str| {
        let value = model.meta_val_str(&format!("{architecture}.attention.{name}_length"));
        value
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default_length)
    };
    let bytes = |numbers: u64, number_type: KvType| {
        let (bytes, numbers_in_block) = number_type.block();
        (numbers * bytes).div_ceil(numbers_in_block)
    };
    u64::from(model.n_layer())
        * (bytes(heads * length("key"), type_k) + bytes(heads * length("value"), type_v))
}

fn cache_type(number_type: KvType) -> KvCacheType {
    match number_type {
        KvType::F32 => KvCacheType::F32,
        KvType::F16 => KvCacheType::F16,
        KvType::Bf16 => KvCacheType::BF16,
        KvType::Q8_0 => KvCacheType::Q8_0,
        KvType::Q5_1 => KvCacheType::Q5_1,
        KvType::Q5_0 => KvCacheType::Q5_0,
        KvType::Q4_1 => KvCacheType::Q4_1,
        KvType::Q4_0 => KvCacheType::Q4_0,
    }
}

/// Physical cores, as far as this process may use them: a second thread on a core only takes turns with the first.
fn default_threads() -> u32 {
    let usable = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cores =
        std::fs::read_to_string("/proc/cpuinfo").map_or(0, |cpuinfo| physical_cores(&cpuinfo));
    (if cores == 0 {
        usable
    } else {
        usable.min(cores)
    }) as u32
}

/// Counts the distinct cores in the text of `/proc/cpuinfo`; 0 where it does not name them.
fn physical_cores(cpuinfo: &str) -> usize {
    let mut cores = Vec::new();
    for processor in cpuinfo.split("\n\n") {
        let value = |key: &str| {
            let line = processor.lines().find(|line| {
                line.split(':')
                    .next()
                    .is_some_and(|name| name.trim() == key)
            })?;
            line.split(':').nth(1)?.trim().parse::<u32>().ok()
        };
        if let (Some(package), Some(core)) = (value("physical id"), value("core id")) {
            cores.push((package, core));
        }
    }
    cores.sort_unstable();
    cores.dedup();
    cores.len()
}

/// A llama.cpp context and the batch it is fed with.
struct LlamaCpp<'a> {
    n_vocab: usize,
    batch: LlamaBatch<'static>,
    context: LlamaContext<'a>,
    capacity: Capacity,
}

impl Backend for LlamaCpp<'_> {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    fn decode(&mut self, batch: &[BatchToken]) -> Result<(), DecodeError> {
        self.batch.clear();
        for entry in batch {
            self.batch
                .add(
                    LlamaToken(entry.token),
                    entry.position as i32,
                    &[entry.slot.0 as i32],
                    entry.logits,
                )
                .map_err(|error| DecodeError::Failed(error.to_string()))?;
        }
        self.context
            .decode(&mut self.batch)
            .map_err(|error| match error {
                LlamaDecodeError::NoKvCacheSlot => DecodeError::NoCells,
                other => DecodeError::Failed(other.to_string()),
            })
    }

    fn logits(&mut self, index: usize) -> &[f32] {
        self.context.get_logits_ith(index as i32)
    }

    fn remove(&mut self, slot: Slot, from: u32) {
        let removed = self
            .context
            .clear_kv_cache_seq(Some(slot.0), Some(from), None);
        // Only models with recurrent state refuse, and only to remove a part.
        if !matches!(removed, Ok(true)) {
            tracing::error!(slot = slot.0, from, "llama.cpp did not remove cells");
        }
    }

    fn copy(&mut self, from: Slot, to: Slot, cells: u32) {
        if let Err(error) =
            self.context
                .copy_kv_cache_seq(from.0 as i32, to.0 as i32, Some(0), Some(cells))
        {
            tracing::error!(%error, "llama.cpp did not copy cells");
        }
    }

    fn clear(&mut self) {
        self.context.clear_kv_cache();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_share_a_core() {
        let processor =
            |core: u32| format!("processor\t: 0\nphysical id\t: 0\ncore id\t\t: {core}\n");
        let cpuinfo = [processor(0), processor(1), processor(0), processor(1)].join("\n");
        assert_eq!(physical_cores(&cpuinfo), 2);
        assert_eq!(physical_cores("processor : 0\nBogoMIPS : 50\n"), 0);
    }
}
