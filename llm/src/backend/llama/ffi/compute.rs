//! Computations of a context: batches of tokens, of images and of hidden states.

use std::ptr::NonNull;
use std::slice;

use llama_cpp_sys_2 as sys;

use super::super::cpu_kernels;
use super::context::Context;
use super::hidden::{Hidden, HiddenOf, target_layers};
use super::{MappingCheck, Model, guard};
use crate::backend::interface::{Adapters, BatchImage, BatchToken, DecodeError};
use crate::lock::lock;

/// Maximum number of hidden states encoded at once. Each takes memory for an unused row of logits.
const MAX_ENCODED: usize = 16;

/// Architectures whose graphs compute the logits of all tokens, whichever ask for them. llama.cpp
/// then returns the first rows instead of the requested ones.
const ALL_ROWS: [&str; 2] = ["cogvlm", "eagle3"];

/// Returns a buffer for the requested rows of logits, if all tokens of a batch have to ask.
pub(super) fn picked_rows(model: &Model) -> Option<Vec<f32>> {
    ALL_ROWS.contains(&&*model.architecture()).then(Vec::new)
}

/// Returns the width of the hidden states of another model that this one encodes; `None` if it
/// encodes none.
pub(super) fn encoded_width(model: &Model) -> Option<usize> {
    let layers = target_layers(model).len();
    let width = model.metadata("eagle3.target_hidden_size")?;
    Some(layers * width.parse::<usize>().ok()?)
}

impl Context<'_> {
    /// Selects the adapters of the next batches, of those the context was created with.
    pub(crate) fn use_adapters(&mut self, adapters: Adapters) {
        if self.in_use == adapters {
            return;
        }
        self.in_use = adapters;
        self.counts_adapters = true;
        let loaded = |number: u32| self.adapters[number as usize].as_ptr();
        let mut raw: Vec<_> = adapters.iter().map(|it| loaded(it.number)).collect();
        let mut scales: Vec<f32> = adapters.iter().map(|it| it.scale.get()).collect();
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

    /// Lets tokens of later batches ask for these hidden states. The error says why they are not
    /// available.
    pub(crate) fn give_hidden(&mut self, of: HiddenOf) -> Result<(), String> {
        // SAFETY: the context is alive, not shared, and on this model.
        self.hidden = Some(unsafe { Hidden::new(self.raw.as_ptr(), self.model, of)? });
        Ok(())
    }

    /// Width of a hidden state; 0 if there are none.
    pub(crate) fn hidden_width(&self) -> usize {
        self.hidden.as_ref().map_or(0, |hidden| hidden.width)
    }

    /// The hidden states of the last batch, for the tokens that asked for them, in the batch's
    /// order.
    pub(crate) fn hidden(&self) -> &[f32] {
        self.hidden
            .as_ref()
            .map_or(&[], |hidden| hidden.rows.as_slice())
    }

    /// Computes a batch of tokens, without hidden states as input.
    pub(crate) fn decode(&mut self, tokens: &[BatchToken]) -> Result<(), DecodeError> {
        let batch = self.batch.fill(tokens, self.places.as_ref());
        // SAFETY: the batch's arrays have as many entries as it says, and live in `self.batch` until
        // it is filled again.
        unsafe { self.run_tokens(tokens, &batch) }
    }

    /// Width of the hidden states of the model that this one drafts for.
    pub(crate) fn source_width(&self) -> usize {
        self.encoded_width.unwrap_or_else(|| self.hidden_width())
    }

    /// Converts hidden states of another model into those that this model drafts from. If the model
    /// does not encode them, they are the same.
    pub(crate) fn encode<'b>(&'b mut self, states: &'b [f32]) -> Result<&'b [f32], DecodeError> {
        let (Some(width), Some(hidden)) = (self.encoded_width, &mut self.hidden) else {
            return Ok(states);
        };
        self.n_rows = 0;
        // SAFETY: the context is alive and not shared.
        unsafe { hidden.ask_for_all(self.raw.as_ptr()) };
        // SAFETY: the context is alive.
        let at_once = unsafe { sys::llama_n_ubatch(self.raw.as_ptr()) } as usize;
        for states in states.chunks(at_once.min(MAX_ENCODED) * width) {
            let count = states.len() / width;
            let batch = self.batch.fill_states(states, count);
            let watch = cpu_kernels::PanicWatch::pool(self.threads.as_ptr());
            let _changing = self.counts_adapters.then(|| lock(self.changing));
            // SAFETY: the context is alive and not shared; the batch's arrays have as many entries
            // as it says, live in `self.batch` until it is filled again, and `embd` has a row of the
            // width that the model encodes for each.
            let code = unsafe { guard::encode(self.raw.as_ptr(), &raw const batch, guard::CAUGHT) };
            outcome(code, &watch, &mut self.cuts)?;
            self.counts_adapters = false;
            // SAFETY: the context is the one that `hidden` was made for, and has just computed these.
            unsafe { hidden.take(self.raw.as_ptr(), 0..count)? };
        }
        Ok(&hidden.rows)
    }

    /// Computes a batch with the hidden state before each token.
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
        let places = self.places.as_ref();
        let batch = self.batch.fill_with_hidden(tokens, hidden, places);
        // SAFETY: as in `decode`; `embd` has a row of the width that such a context takes for each
        // token.
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
        let mut rows = tokens.iter().filter(|token| token.logits).count();
        if let Some(picked) = &mut self.picked {
            picked.clear();
            rows = if rows > 0 { tokens.len() } else { 0 };
        }
        if let Some(hidden) = &mut self.hidden {
            // SAFETY: the context is alive and not shared.
            unsafe { hidden.ask(self.raw.as_ptr(), tokens) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.run(batch, rows)? };
        if let Some(hidden) = &mut self.hidden {
            let asked = (0..tokens.len()).filter(|place| tokens[*place].hidden);
            // SAFETY: the context is the one that `hidden` was made for, and has just computed these
            // tokens.
            unsafe { hidden.take(self.raw.as_ptr(), asked)? };
        }
        if let Some(places) = &mut self.places {
            for token in tokens {
                places.add_token(token.slot.0);
            }
        }
        if let Some(mut picked) = self.picked.take() {
            let rows = self.rows().chunks(self.n_vocab.max(1)).zip(tokens);
            for (row, _) in rows.filter(|(_, token)| token.logits) {
                picked.extend_from_slice(row);
            }
            self.picked = Some(picked);
        }
        Ok(())
    }

    /// Computes positions of images in order. A tile that looks ahead must be the only one in the
    /// call.
    pub(crate) fn decode_images(&mut self, images: &[BatchImage<'_>]) -> Result<(), DecodeError> {
        let places = self.places.as_ref();
        if self.batch.fill_images(images, places) != Some(self.n_embd) {
            return Err(DecodeError::Failed(format!(
                "the images have no embeddings of {} numbers",
                self.n_embd
            )));
        }
        let batch = self.batch.embeddings_batch();
        let look_ahead = images.iter().any(|image| image.tile.looks_ahead);
        let rows = images.iter().filter(|image| image.logits).count();
        self.look_ahead(look_ahead);
        // SAFETY: the batch's arrays have as many entries as it says, `embd` as many rows of the
        // model's width, and live in `self.batch` until it is filled again.
        let computed = unsafe { self.run(&batch, rows) };
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

    /// Sets whether the tokens of the next batches attend to later ones.
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
        let watch = cpu_kernels::PanicWatch::pool(self.threads.as_ptr());
        let _changing = self.counts_adapters.then(|| lock(self.changing));
        // SAFETY: the context is alive and not shared; the caller's promise.
        let status = unsafe { guard::decode(self.raw.as_ptr(), batch, guard::CAUGHT) };
        outcome(status, &watch, &mut self.cuts)?;
        self.counts_adapters = false;
        self.n_rows = rows;
        Ok(())
    }

    /// The rows of logits of the last batch, for the tokens that asked for them, in the batch's
    /// order.
    pub(crate) fn logits(&self) -> &[f32] {
        self.picked.as_deref().unwrap_or_else(|| self.rows())
    }

    /// Returns the rows of logits that llama.cpp keeps of the last batch.
    fn rows(&self) -> &[f32] {
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
}

/// Converts llama.cpp's status of a batch into a result.
fn outcome(
    status: i32,
    watch: &cpu_kernels::PanicWatch,
    cuts: &mut MappingCheck,
) -> Result<(), DecodeError> {
    let message = match status {
        0 if watch.panicked() => "a matmul failed",
        0 if cuts.look() => "the model's file was truncated while in use",
        0 => return Ok(()),
        1 => return Err(DecodeError::NoCells),
        -1 => "the batch is not valid",
        guard::CAUGHT => "llama.cpp failed, see the log",
        status => &format!("llama.cpp failed with status {status}"),
    };
    Err(DecodeError::Failed(message.to_owned()))
}
