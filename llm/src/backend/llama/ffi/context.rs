//! A llama.cpp context: the KV cache of a model and the computations on it.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Mutex;
use std::{ptr, slice};

use llama_cpp_sys_2 as sys;

use super::batch::Batch;
use super::compute::{encoded_width, picked_rows};
use super::hidden::Hidden;
use super::mrope_positions::Places;
use super::{LoadedAdapter, MappingCheck, Model, ThreadPool, guard};
use crate::backend::interface::{Adapters, SaveError};
use crate::lock::lock;

/// Returns llama.cpp's default parameters of a context.
pub(crate) fn default_params() -> sys::llama_context_params {
    // SAFETY: returns plain numbers and null pointers.
    unsafe { sys::llama_context_default_params() }
}

/// Returns true if llama.cpp can create a context with these parameters. It is freed at once.
pub(crate) fn can_create(model: &Model, params: &sys::llama_context_params) -> bool {
    // SAFETY: the model is alive, and `params` come from llama.cpp's defaults, with plain numbers
    // changed.
    let context = unsafe { guard::new_context(model.as_ptr(), params) };
    if !context.is_null() {
        // SAFETY: it was just created, and nothing else has it.
        unsafe { sys::llama_free(context) }
    }
    !context.is_null()
}

/// A context of llama.cpp, freed on drop.
pub(crate) struct RawContext<'a> {
    raw: NonNull<sys::llama_context>,
    model: PhantomData<&'a Model>,
}

impl RawContext<'_> {
    pub(super) fn as_ptr(&self) -> *mut sys::llama_context {
        self.raw.as_ptr()
    }
}

impl Drop for RawContext<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is alive, and nothing uses it after this.
        unsafe { sys::llama_free(self.raw.as_ptr()) }
    }
}

/// A context on a model, which it borrows. It stays on one thread, because it holds raw pointers.
pub(crate) struct Context<'a> {
    pub(super) raw: Rc<RawContext<'a>>,
    /// Context of the model that this one drafts for. It is kept alive, because this one may use
    /// its weights.
    _other: Option<Rc<RawContext<'a>>>,
    /// Dropped after the context, which computes on them.
    pub(super) threads: ThreadPool,
    /// Length of a row of logits.
    pub(crate) n_vocab: usize,
    /// Width of an embedding that a batch can have in place of a token.
    pub(crate) n_embd: usize,
    /// Number of tokens of the last batch that asked for logits; 0 if the batch failed.
    pub(super) n_rows: usize,
    /// Copies of the requested rows of logits, for a model that computes the logits of all tokens
    /// in a batch.
    pub(super) picked: Option<Vec<f32>>,
    /// Width of another model's hidden states, if this model encodes them.
    pub(super) encoded_width: Option<usize>,
    pub(super) batch: Batch,
    /// Positions of cells, if the model counts images by lines and columns.
    pub(crate) places: Option<Places>,
    /// Hidden states for drafting, by another context or by this one.
    pub(super) hidden: Option<Hidden>,
    /// Loaded adapters. [`Adapters`] refer to them by index.
    pub(super) adapters: Vec<LoadedAdapter<'a>>,
    /// Adapters of the last batch.
    pub(super) in_use: Adapters,
    /// Lock that is held while the model changes.
    pub(super) changing: &'a Mutex<()>,
    /// True if llama.cpp counts the model's adapters in the next batch, which must then hold the
    /// lock.
    pub(super) counts_adapters: bool,
    /// Check for reads beyond the end of the model's files.
    pub(super) cuts: MappingCheck,
    pub(super) model: &'a Model,
}

impl<'a> Context<'a> {
    /// Allocates the KV cache and the compute buffers; `None` if llama.cpp refuses, which it logs.
    /// A model without token embeddings or an output layer uses those of `other`.
    pub(crate) fn new(
        model: &'a Model,
        mut params: sys::llama_context_params,
        other: Option<Rc<RawContext<'a>>>,
        threads: ThreadPool,
        adapters: Vec<LoadedAdapter<'a>>,
        mappings: &[Range<usize>],
        changing: &'a Mutex<()>,
    ) -> Option<Self> {
        params.ctx_other = other
            .as_ref()
            .map_or(ptr::null_mut(), |other| other.as_ptr());
        let held = lock(changing);
        // SAFETY: the model is alive for 'a, and `params` come from llama.cpp's defaults, with
        // plain numbers changed, and a context that is alive as long as this one.
        let context = unsafe { guard::new_context(model.as_ptr(), &raw const params) };
        // Dropping an adapter takes this lock.
        drop(held);
        let context = NonNull::new(context)?;
        let raw = RawContext {
            raw: context,
            model: PhantomData,
        };
        // SAFETY: the context is alive; the pool has as many threads as `params` ask for, and lives
        // as long as anything is computed.
        unsafe {
            sys::llama_attach_threadpool(context.as_ptr(), threads.as_ptr(), threads.as_ptr());
        }
        // SAFETY: the context is alive and nobody else has it.
        unsafe { super::hidden::leave_out(context.as_ptr()) };
        let picked = picked_rows(model);
        Some(Self {
            raw: Rc::new(raw),
            _other: other,
            threads,
            n_vocab: model.n_vocab() as usize,
            n_embd: model.input_width() as usize,
            n_rows: 0,
            batch: Batch::where_all_ask(picked.is_some()),
            picked,
            encoded_width: encoded_width(model),
            places: model
                .cell_extension()
                .map(|_| Places::new(params.n_seq_max)),
            hidden: None,
            adapters,
            in_use: Adapters::default(),
            changing,
            counts_adapters: true,
            cuts: MappingCheck::new(mappings.to_vec()),
            model,
        })
    }

    /// Returns a shared reference, for the context of a model that drafts for this one.
    pub(crate) fn raw(&self) -> Rc<RawContext<'a>> {
        Rc::clone(&self.raw)
    }

    /// Number of cells of all sequences together.
    pub(crate) fn n_ctx(&self) -> u32 {
        // SAFETY: the context is alive.
        unsafe { sys::llama_n_ctx(self.raw.as_ptr()) }
    }

    /// Number of earlier states that each sequence keeps besides the state of its last token.
    pub(crate) fn rollback_states(&self) -> u32 {
        // SAFETY: the context is alive.
        unsafe { sys::llama_n_rs_seq(self.raw.as_ptr()) }
    }

    /// Maximum number of tokens in a batch.
    pub(crate) fn n_batch(&self) -> u32 {
        // SAFETY: the context is alive.
        unsafe { sys::llama_n_batch(self.raw.as_ptr()) }
    }

    /// Calls `work` on each thread that decodes.
    pub(crate) fn on_threads(&self, work: &(dyn Fn() + Sync)) {
        // SAFETY: the context is alive.
        let threads = unsafe { sys::llama_n_threads(self.raw.as_ptr()) };
        self.threads.run(threads, work);
    }

    /// Ends idle threads. Call this before a time without work.
    pub(crate) fn rest(&self) {
        self.threads.rest();
    }

    /// Returns the pooled output of a sequence of the last batch; `None` if it has none. Its length
    /// depends on the model's pooling.
    pub(crate) fn sequence_output(&self, sequence: u32, width: SequenceWidth) -> Option<&[f32]> {
        // SAFETY: the context is alive, and used on this thread only. The call waits for the
        // computation.
        let numbers = unsafe {
            sys::llama_get_embeddings_seq(self.raw.as_ptr(), sequence as sys::llama_seq_id)
        };
        // SAFETY: llama.cpp keeps as many floats for each sequence as its pooling produces, until
        // the next call that needs `&mut self`.
        (!numbers.is_null()).then(|| unsafe { slice::from_raw_parts(numbers, width.0) })
    }

    /// Length of a [`sequence_output`](Self::sequence_output); `None` if the context does not pool.
    pub(crate) fn sequence_width(&self, model: &'a Model) -> Option<SequenceWidth> {
        // SAFETY: the context and the model are alive.
        let width = unsafe {
            match sys::llama_pooling_type(self.raw.as_ptr()) {
                sys::LLAMA_POOLING_TYPE_NONE => return None,
                sys::LLAMA_POOLING_TYPE_RANK => sys::llama_model_n_cls_out(model.as_ptr()),
                _ => model.output_width(),
            }
        };
        Some(SequenceWidth(width as usize))
    }

    /// Frees all cells, and sets their contents to zero if `zeroes` is true. Does nothing if the
    /// model has no cells.
    pub(crate) fn clear(&mut self, zeroes: bool) {
        if let Some(places) = &mut self.places {
            places.clear();
        }
        // SAFETY: the context is alive and not shared; for a model without memory this does
        // nothing.
        unsafe { sys::llama_memory_clear(self.memory(), zeroes) }
    }

    /// Frees a sequence's cells from a position on. Returns false if llama.cpp refuses.
    pub(crate) fn remove(&mut self, sequence: u32, from: u32) -> bool {
        let position = self.position(sequence, from) as i32;
        if let Some(places) = &mut self.places {
            places.cut(sequence, from);
        }
        // SAFETY: the context is alive and not shared; sequences are below `n_seq_max`.
        unsafe { sys::llama_memory_seq_rm(self.memory(), sequence as i32, position, -1) }
    }

    /// Frees a sequence's cells before `cell`; the others keep their positions. If `cell` is inside
    /// an image, all cells of the image stay. Returns false if llama.cpp refuses.
    pub(crate) fn remove_before(&mut self, sequence: u32, cell: u32) -> bool {
        let position = self.position(sequence, cell) as i32;
        // SAFETY: as in `remove`.
        unsafe { sys::llama_memory_seq_rm(self.memory(), sequence as i32, 0, position) }
    }

    /// Returns the model's position of a cell.
    fn position(&self, sequence: u32, cell: u32) -> u32 {
        let places = self.places.as_ref();
        places.map_or(cell, |places| places.position(sequence, cell))
    }

    /// Size of a sequence's state as llama.cpp writes it, in bytes.
    pub(crate) fn state_size(&mut self, sequence: u32, part: StatePart) -> usize {
        // SAFETY: the context is alive and not shared; sequences are below `n_seq_max`.
        unsafe {
            sys::llama_state_seq_get_size_ext(self.raw.as_ptr(), sequence as i32, part as u32)
        }
    }

    /// Replaces `state` with the state of a sequence, as llama.cpp writes it.
    pub(crate) fn read_state(
        &mut self,
        sequence: u32,
        part: StatePart,
        state: &mut Vec<u8>,
    ) -> Result<(), SaveError> {
        let size = self.state_size(sequence, part);
        state.clear();
        state.reserve_exact(size);
        // SAFETY: as in `state_size`; there is room for `size` bytes, and llama.cpp writes no more
        // than that and returns the number that it wrote.
        let written = unsafe {
            let written = sys::llama_state_seq_get_data_ext(
                self.raw.as_ptr(),
                state.as_mut_ptr(),
                size,
                sequence as i32,
                part as u32,
            );
            state.set_len(written.min(size));
            written
        };
        if written == 0 || written != size {
            return Err(SaveError(format!(
                "llama.cpp wrote {written} of {size} bytes of a sequence"
            )));
        }
        Ok(())
    }

    /// Restores an empty sequence from a state, which must come from this context or be put
    /// together from such states.
    pub(crate) fn write_state(&mut self, sequence: u32, state: &[u8]) -> Result<(), SaveError> {
        // SAFETY: the context is alive and not shared, and sequences are below `n_seq_max`.
        // llama.cpp checks every number in the state against the context and the state's length. If
        // it refuses the state, it frees the cells that it took and returns 0.
        let read = unsafe {
            sys::llama_state_seq_set_data(
                self.raw.as_ptr(),
                state.as_ptr(),
                state.len(),
                sequence as i32,
            )
        };
        if read == state.len() {
            Ok(())
        } else {
            Err(SaveError(format!(
                "llama.cpp read {read} of {} bytes of a sequence",
                state.len()
            )))
        }
    }

    /// Shares the first cells of one sequence with another one.
    pub(crate) fn share(&mut self, from: u32, to: u32, cells: u32) {
        let end = self.position(from, cells) as i32;
        if let Some(places) = &mut self.places {
            places.share(from, to, cells);
        }
        // SAFETY: as in `remove`.
        unsafe { sys::llama_memory_seq_cp(self.memory(), from as i32, to as i32, 0, end) }
    }

    fn memory(&self) -> sys::llama_memory_t {
        // SAFETY: the context is alive, and its memory lives as long.
        unsafe { sys::llama_get_memory(self.raw.as_ptr()) }
    }
}

/// The part of a sequence's state that is written, as a flag of llama.cpp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatePart {
    /// The whole state of the sequence.
    Whole = 0,
    /// The state without the layers that keep a cell for each token. The value is that of the macro
    /// `LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY`, which the binding lacks.
    Partial = 1,
}

/// Length of the pooled output of a sequence. Only [`Context::sequence_width`] creates one, so no
/// more numbers are read than exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SequenceWidth(usize);

impl SequenceWidth {
    pub(crate) fn get(self) -> usize {
        self.0
    }
}
