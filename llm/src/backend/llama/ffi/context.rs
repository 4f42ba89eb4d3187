//! A llama.cpp context: the KV cache of a model and the computations on it.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::slice;

use llama_cpp_2::model::LlamaModel;
use llama_cpp_sys_2 as sys;

use super::super::cpu_kernels;
use super::batch::Batch;
use super::hidden::Hidden;
use super::places::Places;
use super::{Adapter, ThreadPool};
use super::{Cuts, guard};
use crate::backend::interface::{self, BatchImage, BatchToken, DecodeError, SaveError};

/// llama.cpp's defaults.
pub(crate) fn default_params() -> sys::llama_context_params {
    // SAFETY: returns plain numbers and null pointers.
    unsafe { sys::llama_context_default_params() }
}

/// Whether llama.cpp creates a context with these parameters, which is freed at once.
pub(crate) fn can_create(model: &LlamaModel, params: &sys::llama_context_params) -> bool {
    // SAFETY: the model is alive, and `params` come from llama.cpp's defaults, with plain numbers
    // changed.
    let context = unsafe { guard::new_context(super::model::as_ptr(model).as_ptr(), params) };
    if !context.is_null() {
        // SAFETY: it was just created, and nothing else has it.
        unsafe { sys::llama_free(context) }
    }
    !context.is_null()
}

/// A context on a model, which it borrows. Used on one thread, as it holds pointers.
pub(crate) struct Context<'a> {
    raw: NonNull<sys::llama_context>,
    /// Dropped after the context, which computes on them.
    threads: ThreadPool,
    n_vocab: usize,
    /// Numbers of an embedding that a batch can have instead of a token.
    n_embd: usize,
    /// Tokens of the last batch that asked for logits; 0 if it failed.
    n_rows: usize,
    batch: Batch,
    /// Where the cells of sequences are, if the model counts images by lines and columns.
    places: Option<Places>,
    /// What MTP layers draft from, if there are any.
    hidden: Option<Hidden>,
    /// Those that batches can name.
    adapters: Vec<Adapter<'a>>,
    /// The one in use.
    adapter: Option<interface::Adapter>,
    /// Of the model's files.
    cuts: Cuts,
    model: PhantomData<&'a LlamaModel>,
}

impl<'a> Context<'a> {
    /// Allocates the KV cache and the compute buffers; `None` if llama.cpp refuses, which it logs.
    pub(crate) fn new(
        model: &'a LlamaModel,
        params: sys::llama_context_params,
        threads: ThreadPool,
        adapters: Vec<Adapter<'a>>,
        mappings: &[Range<usize>],
    ) -> Option<Self> {
        // SAFETY: the model is alive for 'a, and `params` come from llama.cpp's defaults, with
        // plain numbers changed.
        let context = unsafe { guard::new_context(super::model::as_ptr(model).as_ptr(), &params) };
        let context = NonNull::new(context)?;
        // SAFETY: the context is alive; the pool has as many threads as `params` ask for, and lives
        // longer than the context.
        unsafe {
            sys::llama_attach_threadpool(context.as_ptr(), threads.as_ptr(), threads.as_ptr());
        }
        // SAFETY: the context is alive and nobody else has it.
        unsafe { super::hidden::leave_out(context) };
        Some(Self {
            raw: context,
            threads,
            n_vocab: usize::try_from(model.n_vocab()).unwrap_or(0),
            n_embd: super::model::input_width(model),
            n_rows: 0,
            batch: Batch::default(),
            places: super::cell_extension(model).map(|_| Places::new(params.n_seq_max)),
            hidden: None,
            adapters,
            adapter: None,
            cuts: Cuts::of(mappings.to_vec()),
            model: PhantomData,
        })
    }

    /// Cells of all sequences together.
    pub(crate) fn n_ctx(&self) -> u32 {
        // SAFETY: the context is alive.
        unsafe { sys::llama_n_ctx(self.raw.as_ptr()) }
    }

    /// Earlier states that each sequence keeps beside that of its last token.
    pub(crate) fn rollback_states(&self) -> u32 {
        // SAFETY: the context is alive.
        unsafe { sys::llama_n_rs_seq(self.raw.as_ptr()) }
    }

    /// Most tokens of a batch.
    pub(crate) fn n_batch(&self) -> u32 {
        // SAFETY: the context is alive.
        unsafe { sys::llama_n_batch(self.raw.as_ptr()) }
    }

    /// Numbers of an embedding that stands in the place of a token.
    pub(crate) fn n_embd(&self) -> usize {
        self.n_embd
    }

    /// Length of a row of logits.
    pub(crate) fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    /// Computes the next batches with this adapter, one of those the context was created with, or
    /// with none.
    pub(crate) fn use_adapter(&mut self, adapter: Option<interface::Adapter>) {
        if self.adapter == adapter {
            return;
        }
        self.adapter = adapter;
        let chosen = adapter.map(|adapter| &self.adapters[adapter.0 as usize]);
        let mut raw: Vec<_> = chosen.iter().map(|adapter| adapter.as_ptr()).collect();
        let mut scales: Vec<f32> = chosen.iter().map(|adapter| adapter.scale()).collect();
        // SAFETY: the context is alive and not shared; the adapters are of its model and live as
        // long; the call copies the lists, which have as many entries as it is told.
        unsafe {
            sys::llama_set_adapters_lora(
                self.raw.as_ptr(),
                raw.as_mut_ptr(),
                raw.len(),
                scales.as_mut_ptr(),
            );
        }
    }

    /// From here on, tokens of batches can ask for hidden states.
    pub(crate) fn give_hidden(&mut self, model: &'a LlamaModel) {
        self.hidden = Some(Hidden::new(model));
    }

    /// Numbers of a hidden state; 0 if there are none.
    pub(crate) fn hidden_width(&self) -> usize {
        self.hidden.as_ref().map_or(0, Hidden::width)
    }

    /// The hidden states of the last batch, for the tokens that asked for them, in the batch's
    /// order.
    pub(crate) fn hidden(&self) -> &[f32] {
        self.hidden.as_ref().map_or(&[], Hidden::rows)
    }

    /// Computes a batch.
    pub(crate) fn decode(&mut self, tokens: &[BatchToken]) -> Result<(), DecodeError> {
        let batch = self.batch.fill(tokens, self.places.as_ref());
        // SAFETY: the batch's arrays have as many entries as it says, and live in `self.batch` until
        // it is filled again.
        unsafe { self.run_tokens(tokens, &batch) }
    }

    /// Computes a batch of MTP layers, with the hidden state before each token.
    pub(crate) fn decode_with_hidden(
        &mut self,
        tokens: &[BatchToken],
        hidden: &[f32],
    ) -> Result<(), DecodeError> {
        let (wanted, got) = (tokens.len() * self.hidden_width(), hidden.len());
        if wanted != got || wanted == 0 {
            return Err(DecodeError::Failed(format!(
                "the hidden states have {got} numbers instead of {wanted}"
            )));
        }
        let batch = self
            .batch
            .fill_with_hidden(tokens, hidden, self.places.as_ref());
        // SAFETY: as in `decode`; `embd` has a row of the width that a context of MTP layers takes
        // for each token.
        unsafe { self.run_tokens(tokens, &batch) }
    }

    /// Computes a batch of tokens.
    ///
    /// # Safety
    /// The batch is one of these tokens, and its arrays have as many entries as it says.
    unsafe fn run_tokens(
        &mut self,
        tokens: &[BatchToken],
        batch: &sys::llama_batch,
    ) -> Result<(), DecodeError> {
        let rows = tokens.iter().filter(|token| token.logits).count();
        if let Some(hidden) = &mut self.hidden {
            // SAFETY: the context is alive and not shared.
            unsafe { hidden.ask(self.raw, tokens) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.run(batch, rows)? };
        if let Some(hidden) = &mut self.hidden {
            // SAFETY: the context is alive and not shared, has just computed these tokens, and is on
            // the model that `give_hidden` was called with.
            unsafe { hidden.take(self.raw, tokens)? };
        }
        if let Some(places) = &mut self.places {
            for token in tokens {
                places.add_token(token.slot.0);
            }
        }
        Ok(())
    }

    /// Computes positions of images, in the order in which they come. Those that look ahead come
    /// alone.
    pub(crate) fn decode_images(&mut self, images: &[BatchImage<'_>]) -> Result<(), DecodeError> {
        let places = self.places.as_ref();
        if self.batch.fill_images(images, places) != Some(self.n_embd) {
            return Err(DecodeError::Failed(format!(
                "the images have no embeddings of {} numbers",
                self.n_embd
            )));
        }
        let batch = self.batch.of_embeddings();
        let look_ahead = images.iter().any(|image| image.tile.looks_ahead);
        self.look_ahead(look_ahead);
        // SAFETY: the batch's arrays have as many entries as it says, `embd` as many rows of the
        // model's width, and live in `self.batch` until it is filled again.
        let computed = unsafe { self.run(&batch, 0) };
        self.look_ahead(false);
        computed?;
        if let Some(places) = &mut self.places {
            for image in images {
                let begin = places.position(image.slot.0, image.first - image.offset);
                places.add_image(image.slot.0, begin, image.positions, &image.tile);
            }
        }
        Ok(())
    }

    /// Whether the tokens of the next batches see those behind them.
    fn look_ahead(&mut self, yes: bool) {
        // SAFETY: the context is alive and not shared.
        unsafe { sys::llama_set_causal_attn(self.raw.as_ptr(), !yes) }
    }

    /// Computes a batch in which `rows` tokens ask for logits.
    ///
    /// # Safety
    /// The batch's arrays have as many entries as it says.
    unsafe fn run(&mut self, batch: &sys::llama_batch, rows: usize) -> Result<(), DecodeError> {
        self.n_rows = 0;
        let watch = cpu_kernels::Watch::pool(self.threads.as_ptr());
        // SAFETY: the context is alive and not shared; the caller's promise.
        match unsafe { guard::decode(self.raw.as_ptr(), batch) } {
            0 if watch.panicked() => Err(DecodeError::Failed(
                "a product of matrices failed".to_owned(),
            )),
            0 if self.cuts.look() => Err(DecodeError::Failed(
                "a part of the model's file is gone: it was cut while it is in use".to_owned(),
            )),
            0 => {
                self.n_rows = rows;
                Ok(())
            }
            1 => Err(DecodeError::NoCells),
            -1 => Err(DecodeError::Failed("the batch is not valid".to_owned())),
            guard::CAUGHT => Err(DecodeError::Failed(
                "llama.cpp failed, the log says why".to_owned(),
            )),
            status => Err(DecodeError::Failed(format!(
                "llama.cpp failed with status {status}"
            ))),
        }
    }

    /// Calls `work` on each thread that decodes.
    pub(crate) fn on_threads(&self, work: &(dyn Fn() + Sync)) {
        // SAFETY: the context is alive.
        let threads = unsafe { sys::llama_n_threads(self.raw.as_ptr()) };
        self.threads.run(threads, work);
    }

    /// To be called where nothing is to be computed for a while.
    pub(crate) fn rest(&self) {
        self.threads.rest();
    }

    /// The rows of logits of the last batch, for the tokens that asked for them, in the batch's
    /// order.
    pub(crate) fn logits(&self) -> &[f32] {
        if self.n_rows == 0 {
            return &[];
        }
        // SAFETY: the context is alive, and used on this thread only. The call waits for the
        // computation and puts the rows in order.
        let rows = unsafe { sys::llama_get_logits(self.raw.as_ptr()) };
        let rows = NonNull::new(rows).expect("the batch has logits");
        // SAFETY: there is a row of `n_vocab` floats for each of the batch's tokens that asked,
        // until the next call that needs `&mut self`.
        unsafe { slice::from_raw_parts(rows.as_ptr(), self.n_rows * self.n_vocab) }
    }

    /// The pooled output of a sequence of the last batch, of as many numbers as the model's pooling
    /// makes; `None` if it had none.
    pub(crate) fn sequence_output(&self, sequence: u32, width: SequenceWidth) -> Option<&[f32]> {
        // SAFETY: the context is alive, and used on this thread only. The call waits for the
        // computation.
        let numbers = unsafe {
            sys::llama_get_embeddings_seq(self.raw.as_ptr(), sequence as sys::llama_seq_id)
        };
        // SAFETY: llama.cpp keeps as many floats for each sequence as its pooling makes, until the
        // next call that needs `&mut self`.
        (!numbers.is_null()).then(|| unsafe { slice::from_raw_parts(numbers, width.0) })
    }

    /// How many numbers [`sequence_output`](Self::sequence_output) gives for each sequence; `None`
    /// if the context does not pool.
    pub(crate) fn sequence_width(&self, model: &'a LlamaModel) -> Option<SequenceWidth> {
        let model = super::model::as_ptr(model).as_ptr();
        // SAFETY: the context and the model are alive.
        let width = unsafe {
            match sys::llama_pooling_type(self.raw.as_ptr()) {
                sys::LLAMA_POOLING_TYPE_NONE => return None,
                sys::LLAMA_POOLING_TYPE_RANK => sys::llama_model_n_cls_out(model),
                _ => u32::try_from(sys::llama_model_n_embd_out(model)).ok()?,
            }
        };
        Some(SequenceWidth(width as usize))
    }

    /// Frees all cells, if the model keeps any, without writing to them.
    pub(crate) fn forget(&mut self) {
        self.clear_places();
        // SAFETY: the context is alive and not shared; for a model without memory this does
        // nothing.
        unsafe { sys::llama_memory_clear(self.memory(), false) }
    }

    /// Frees a sequence's cells from a position on; says whether that was possible.
    pub(crate) fn remove(&mut self, sequence: u32, from: u32) -> bool {
        let position = self.position(sequence, from) as i32;
        if let Some(places) = &mut self.places {
            places.cut(sequence, from);
        }
        // SAFETY: the context is alive and not shared; sequences are below `n_seq_max`.
        unsafe { sys::llama_memory_seq_rm(self.memory(), sequence as i32, position, -1) }
    }

    /// Frees a sequence's cells before one, which keep their places; says whether that was possible.
    /// Inside of an image, those of the image stay.
    pub(crate) fn remove_before(&mut self, sequence: u32, cell: u32) -> bool {
        let position = self.position(sequence, cell) as i32;
        // SAFETY: as in `remove`.
        unsafe { sys::llama_memory_seq_rm(self.memory(), sequence as i32, 0, position) }
    }

    /// How many cells a sequence has got, where cells say more of their places than one number.
    pub(crate) fn placed_cells(&self, sequence: u32) -> Option<u32> {
        Some(self.places.as_ref()?.cells(sequence))
    }

    /// An empty sequence was given a state with cells at these positions, behind `before` others
    /// that it gets, and goes on at `next`.
    pub(crate) fn place(
        &mut self,
        sequence: u32,
        before: u32,
        positions: impl Iterator<Item = u32>,
        next: u32,
    ) {
        if let Some(places) = &mut self.places {
            places.restore(sequence, before, positions, next);
        }
    }

    /// An empty sequence was given the state of another one.
    pub(crate) fn place_as(&mut self, from: u32, to: u32) {
        if let Some(places) = &mut self.places {
            places.share(from, to, places.cells(from));
        }
    }

    /// The model's number for the place of a cell.
    fn position(&self, sequence: u32, cell: u32) -> u32 {
        let places = self.places.as_ref();
        places.map_or(cell, |places| places.position(sequence, cell))
    }

    fn clear_places(&mut self) {
        if let Some(places) = &mut self.places {
            places.clear();
        }
    }

    /// Bytes of a sequence's state as llama.cpp writes it.
    pub(crate) fn state_size(&mut self, sequence: u32, part: StatePart) -> usize {
        // SAFETY: the context is alive and not shared; sequences are below `n_seq_max`.
        unsafe {
            sys::llama_state_seq_get_size_ext(self.raw.as_ptr(), sequence as i32, part.flags())
        }
    }

    /// Replaces `state` by that of a sequence as llama.cpp writes it.
    pub(crate) fn read_state(
        &mut self,
        sequence: u32,
        part: StatePart,
        state: &mut Vec<u8>,
    ) -> Result<(), SaveError> {
        let size = self.state_size(sequence, part);
        state.clear();
        state.reserve_exact(size);
        // SAFETY: as in `state_size`; there is room for `size` bytes, and llama.cpp writes no more than that
        // and says how many it wrote.
        let written = unsafe {
            let written = sys::llama_state_seq_get_data_ext(
                self.raw.as_ptr(),
                state.as_mut_ptr(),
                size,
                sequence as i32,
                part.flags(),
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

    /// Gives an empty sequence all that a state describes, which must have been put together from
    /// states of this context.
    pub(crate) fn write_state(&mut self, sequence: u32, state: &[u8]) -> Result<(), SaveError> {
        // SAFETY: the context is alive and not shared, and sequences are below `n_seq_max`;
        // llama.cpp checks every number of the state against the context and its length, and
        // refuses it with 0 after freeing what it took.
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

    /// Gives one sequence the first cells of another.
    pub(crate) fn share(&mut self, from: u32, to: u32, cells: u32) {
        let end = self.position(from, cells) as i32;
        if let Some(places) = &mut self.places {
            places.share(from, to, cells);
        }
        // SAFETY: as in `remove`.
        unsafe { sys::llama_memory_seq_cp(self.memory(), from as i32, to as i32, 0, end) }
    }

    /// Frees all cells and zeroes them.
    pub(crate) fn clear(&mut self) {
        self.clear_places();
        // SAFETY: the context is alive and not shared.
        unsafe { sys::llama_memory_clear(self.memory(), true) }
    }

    fn memory(&self) -> sys::llama_memory_t {
        // SAFETY: the context is alive; its memory lives as long as itself.
        unsafe { sys::llama_get_memory(self.raw.as_ptr()) }
    }
}

/// What is written of a sequence's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatePart {
    /// All of it.
    Whole,
    /// Without the cells of layers that keep one for each token.
    Partial,
}

impl StatePart {
    fn flags(self) -> sys::llama_state_seq_flags {
        match self {
            Self::Whole => 0,
            // `LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY`, a macro that the binding leaves out.
            Self::Partial => 1,
        }
    }
}

/// How many numbers a context gives for a sequence. Only the context itself makes one, so that no
/// more are read than there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SequenceWidth(usize);

impl SequenceWidth {
    pub(crate) fn get(self) -> usize {
        self.0
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is alive, and nothing uses it after this.
        unsafe { sys::llama_free(self.raw.as_ptr()) }
    }
}
