//! llama.cpp: loads a GGUF file, sizes the KV cache for this machine, and computes batches.
//!
//! The context borrows the weights and is used on one thread only, so [`open`] keeps both on its
//! stack while the engine runs. The weights and the vocabulary in them are immutable and shared
//! with every session.

use std::ops::Range;

use crate::backend::interface::{
    Backend, BatchImage, BatchToken, Capacity, Checkpoint, DecodeError, DraftSupport, KvLayout,
    SaveError, SavedCells, SavedPart, Slot,
};
use crate::model::info::{BackendInfo, ComputeInfo, KvInfo, WeightsInfo};
use crate::protocol::LoadError;
use crate::settings::{FlashAttention, LlmEngineSpec};

mod adapter_tensors;
mod adapters;
#[cfg(feature = "cpu-kernels")]
mod cpu_kernels;
#[cfg(not(feature = "cpu-kernels"))]
#[path = "no_cpu_kernels.rs"]
mod cpu_kernels;
mod device_memory;
mod devices;
mod eagle3;
mod embed;
mod ffi;
mod gguf;
mod gguf_reader;
mod kv_state;
mod log_lines;
mod model;
mod mtp;
mod open;
mod plan;
mod process;
mod quantize;
mod sequence_state;
mod state_size;
mod sub_batches;
mod threads;
mod tokenize;
#[cfg_attr(not(feature = "vision"), path = "no_vision.rs")]
mod vision;
mod vocab;

#[cfg(target_os = "linux")]
use cpu_kernels::HugePages;
#[cfg(feature = "cpu-kernels")]
pub use cpu_kernels::MeasuredMatmul;
#[cfg(target_os = "linux")]
pub(crate) use cpu_kernels::unused_bytes as unbacked_bytes;
pub(crate) use embed::open as open_embedding;
use ffi::{Context, Heard, Model};
pub(super) use ffi::{exit, limit_process};
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) use ffi::{freed_bytes, limit_heaps, trim_heap};
pub(crate) use gguf::{check as check_header, file_type, is_adapter, kind as kind_of};
use model::Weights;
pub(crate) use open::{open, open_vocab};
use plan::ContextPlan;
use process::Environment;
#[cfg(feature = "cpu-kernels")]
pub use process::measure_matmul;
pub use process::with_cpu_kernels;
pub(crate) use quantize::quantize;
use sequence_state::SequenceStates;
use sub_batches::{GoesBack, SubBatches};
use threads::Threads;
pub(super) use threads::threads_have_own_cpus;

/// Returns true if llama.cpp mixes up the states of sequences computed in one pass.
fn mixes_up_states(model: &Model) -> bool {
    let architecture = model.architecture();
    matches!(&*architecture, "arwkv7" | "plamo2" | "rwkv6qwen2")
}

/// Architectures that compute given embeddings differently from those of tokens: with other weights,
/// or from the ids of tokens.
const NEED_TOKENS: [&str; 7] = [
    "clef",
    "cogvlm",
    "deepseek4",
    "gemma3n",
    "gemma4",
    "graniteswitch",
    "qwen4exp",
];

/// Returns the width of vectors that the model computes like the embeddings of tokens; `None` if
/// there are no such vectors.
fn vector_width(model: &Model) -> Option<usize> {
    let architecture = model.architecture();
    let needs_tokens = match &*architecture {
        // llama.cpp takes no embeddings for files that were converted without M-RoPE.
        "glm4" | "glm4moe" => model.cell_extension().is_none(),
        architecture => NEED_TOKENS.contains(&architecture),
    };
    // If several layers read the embeddings of images, these are wider than those of tokens.
    let width = model.n_embd();
    (!needs_tokens && width == model.input_width()).then_some(width as usize)
}

/// Returns the division into sub-batches for a context; `None` if batches are computed at once.
/// `rollback_states` is the number of tokens that its sequences can go back.
fn divided(
    spec: &LlmEngineSpec,
    plan: &ContextPlan<'_>,
    weights: &Weights,
    rollback_states: u32,
) -> Option<SubBatches> {
    if mixes_up_states(&weights.model) {
        // The number of passes is free here: each sequence has its own.
        return Some(SubBatches::new(Some(0), None));
    }
    let bytes = plan.ragged_bytes;
    let pass_cost = bytes.map(|bytes| weights.model.bytes() / bytes.max(1));
    let goes_back = (rollback_states > 0).then_some(GoesBack {
        unified: plan.unified,
        ubatch: plan.ubatch as usize,
    });
    let divides = pass_cost.is_some() || goes_back.is_some() || !spec.adapters.is_empty();
    divides.then(|| SubBatches::new(pass_cost, goes_back))
}

/// Describes a context, from the log of its creation.
fn describe(
    weights: &Weights,
    heard: &Heard,
    threads: &Threads,
    ubatch: u32,
    flash_attention: FlashAttention,
    kv: Option<KvInfo>,
    environment: Environment,
) -> BackendInfo {
    let (model, layout) = (&weights.model, &weights.layout);
    let mut buffers = layout.buffers.clone();
    buffers.extend(log_lines::buffers(&heard.lines));
    BackendInfo {
        backend: "llama.cpp",
        weights: Some(WeightsInfo {
            architecture: model.architecture(),
            quantization: model.quantization(),
            parameters: model.parameters(),
            bytes: model.bytes(),
            trained_context: model.trained_context(),
            shared: weights.shared,
        }),
        kv,
        compute: Some(ComputeInfo {
            ubatch,
            threads: threads.decode,
            batch_threads: threads.batch,
            cpu_affinity: threads.cpus.clone(),
            cpu_strict: threads.strict,
            thread_priority: threads.priority,
            numa: environment.numa,
            flash_attention: flash_attention != FlashAttention::Off
                && !log_lines::flash_attention_refused(&heard.lines),
            features: environment.features.to_owned(),
        }),
        kernels: layout.packed.as_ref().map(|packed| packed.info.clone()),
        devices: devices::with_layers(&layout.layers),
        buffers,
    }
}

/// A llama.cpp context that serves an engine.
struct LlamaCpp<'a> {
    info: BackendInfo,
    context: Context<'a>,
    capacity: Capacity,
    drafts: DraftSupport,
    /// True if it computes from hidden states of another context.
    from_hidden: bool,
    /// True if each sequence needs a pass of its own.
    apart: bool,
    /// Divides batches into sub-batches, if that can be cheaper than a single pass.
    divided: Option<SubBatches>,
    #[cfg(target_os = "linux")]
    huge_pages: HugePages,
    states: SequenceStates,
}

impl<'a> LlamaCpp<'a> {
    fn new(
        spec: &LlmEngineSpec,
        weights: &'a Weights,
        plan: &ContextPlan<'a>,
        environment: Environment,
    ) -> Result<Self, LoadError> {
        let (mut context, heard) = plan.create(spec, weights)?;
        let streams = if plan.unified { 1 } else { plan.max_sequences };
        let states = SequenceStates::new(&mut context, &weights.model, streams);
        let rollback_states = context.rollback_states();
        let drafts = match (weights.model.has_states(), rollback_states) {
            (true, 0) => DraftSupport::Never,
            (true, states) => DraftSupport::UpTo(states),
            (false, _) if plan.unified => DraftSupport::AnyLength,
            (false, _) => DraftSupport::SameLength,
        };
        let capacity = Capacity {
            total_cells: context.n_ctx(),
            cells_per_sequence: plan.context_length.min(context.n_ctx() / streams),
            max_sequences: plan.max_sequences,
            max_batch_tokens: spec.max_num_batched_tokens.min(context.n_batch()),
            embedding_width: Some(context.n_embd),
            vector_width: vector_width(&weights.model),
            layout: if plan.unified {
                KvLayout::Unified
            } else {
                KvLayout::PerSequence
            },
            reuse: states.reuse(),
            host_cache_bytes: plan.prefix_bytes,
        };
        let divided = divided(spec, plan, weights, rollback_states);
        let kv = KvInfo {
            bytes_per_cell: plan.bytes_per_cell,
            bytes: u64::from(plan.cells) * plan.bytes_per_cell,
            state_bytes: plan.state_bytes,
            type_k: spec.plugin_config.kv_type_k,
            type_v: spec.plugin_config.kv_type_v,
            unified: plan.unified,
            bound: plan.bound.to_string(),
        };
        Ok(Self {
            info: describe(
                weights,
                &heard,
                &plan.threads,
                plan.ubatch,
                plan.flash_attention,
                Some(kv),
                environment,
            ),
            context,
            capacity,
            drafts,
            from_hidden: plan.drafts_for.is_some(),
            apart: mixes_up_states(&weights.model),
            divided,
            #[cfg(target_os = "linux")]
            huge_pages: HugePages::new(spec.plugin_config.huge_pages != Some(false)),
            states,
        })
    }
}

impl Backend for LlamaCpp<'_> {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn info(&self) -> BackendInfo {
        self.info.clone()
    }

    fn n_vocab(&self) -> usize {
        self.context.n_vocab
    }

    fn draft_support(&self) -> DraftSupport {
        self.drafts
    }

    fn decode(&mut self, batch: &[BatchToken]) -> Result<(), DecodeError> {
        match &mut self.divided {
            Some(divided) => divided.decode(&mut self.context, batch),
            None => self.context.decode(batch),
        }
    }

    fn decode_images(
        &mut self,
        images: &[BatchImage<'_>],
        rows: &mut Vec<f32>,
    ) -> Result<(), DecodeError> {
        // A pass is computed with the same adapters, and a tile that looks ahead needs a pass of its
        // own. If a pass fails, the caller frees the cells of the passes before it.
        let apart = self.apart;
        let together = |one: &BatchImage<'_>, next: &BatchImage<'_>| {
            let is_whole = one.tile.looks_ahead || next.tile.looks_ahead;
            one.adapters == next.adapters && !is_whole && !apart
        };
        for images in images.chunk_by(together) {
            self.context.use_adapters(images[0].adapters);
            self.context.decode_images(images)?;
            if images.iter().any(|image| image.logits) {
                rows.extend_from_slice(self.context.logits());
            }
        }
        Ok(())
    }

    fn logits(&self) -> &[f32] {
        match &self.divided {
            Some(divided) => divided.logits(&self.context),
            None => self.context.logits(),
        }
    }

    fn hidden(&self) -> &[f32] {
        match &self.divided {
            Some(divided) => divided.hidden(&self.context),
            None => self.context.hidden(),
        }
    }

    fn hidden_width(&self) -> usize {
        if self.from_hidden {
            self.context.source_width()
        } else {
            0
        }
    }

    fn decode_with_hidden(
        &mut self,
        batch: &[BatchToken],
        hidden: &[f32],
    ) -> Result<(), DecodeError> {
        self.context.decode_with_hidden(batch, hidden)
    }

    fn encode_hidden<'b>(&'b mut self, states: &'b [f32]) -> Result<&'b [f32], DecodeError> {
        self.context.encode(states)
    }

    fn on_threads(&self, work: &(dyn Fn() + Sync)) {
        self.context.on_threads(work);
    }

    fn remove(&mut self, slot: Slot, from: u32) {
        // Only models with recurrent states refuse, and only if a part of the cells is removed.
        if !self.context.remove(slot.0, from) {
            tracing::error!(slot = slot.0, from, "llama.cpp did not remove cells");
        }
    }

    fn remove_before(&mut self, slot: Slot, position: u32) {
        if self.states.has_cells() && !self.context.remove_before(slot.0, position) {
            tracing::error!(slot = slot.0, position, "llama.cpp did not remove cells");
        }
    }

    fn share(&mut self, from: Slot, to: Slot, cells: u32) {
        self.context.share(from.0, to.0, cells);
    }

    fn save(&mut self, slot: Slot, pieces: &[Range<u32>]) -> Result<Vec<SavedCells>, SaveError> {
        self.states.save(&mut self.context, slot.0, pieces)
    }

    fn checkpoint(&mut self, slot: Slot) -> Result<Checkpoint, SaveError> {
        self.states.checkpoint(&mut self.context, slot.0)
    }

    fn restore(
        &mut self,
        slot: Slot,
        from: u32,
        parts: &[SavedPart<'_>],
        checkpoint: Option<&Checkpoint>,
    ) -> Result<(), SaveError> {
        self.states
            .restore(&mut self.context, slot.0, from, parts, checkpoint)
    }

    fn relocate(&mut self, from: Slot, to: Slot) -> Result<(), SaveError> {
        self.states.copy(&mut self.context, from.0, to.0)?;
        self.remove(from, 0);
        Ok(())
    }

    fn clear(&mut self) {
        self.context.clear(true);
    }

    #[cfg(target_os = "linux")]
    fn tidy(&mut self) -> bool {
        self.huge_pages.move_some()
    }

    fn rest(&mut self) {
        self.context.rest();
    }
}
