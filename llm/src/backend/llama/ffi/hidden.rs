//! Hidden states of a context: what a model computes of a token before it makes logits of that, and
//! what its MTP layers draft from.

use std::ptr::NonNull;
use std::slice;

use llama_cpp_2::model::LlamaModel;
use llama_cpp_sys_2 as sys;

use crate::backend::interface::{BatchToken, DecodeError};

unsafe extern "C" {
    fn graphmill_give_hidden(context: *mut sys::llama_context, give: bool, all: bool);
    fn graphmill_hidden(context: *mut sys::llama_context, index: i32) -> *const f32;
}

/// Has a new context leave out what nobody asks for: unless they are told, some architectures
/// (gpt-oss, Qwen3.5, Gemma 4 and others) compute the feed-forward part of their last layer for all
/// tokens of a prompt, for whoever would want their hidden states.
///
/// # Safety
/// The context must be alive and not shared.
pub(super) unsafe fn leave_out(context: NonNull<sys::llama_context>) {
    // SAFETY: the caller's promise.
    unsafe { graphmill_give_hidden(context.as_ptr(), false, false) }
}

/// The hidden states of a context's last batch.
pub(super) struct Hidden {
    width: usize,
    rows: Vec<f32>,
}

impl Hidden {
    /// Of a context on this model.
    pub(super) fn new(model: &LlamaModel) -> Self {
        // SAFETY: the model is alive.
        let width = unsafe { sys::llama_model_n_embd_out(super::model::as_ptr(model).as_ptr()) };
        Self {
            width: usize::try_from(width).unwrap_or(0),
            rows: Vec::new(),
        }
    }

    /// Numbers of each.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// One for each token that asked for it, in the batch's order.
    pub(super) fn rows(&self) -> &[f32] {
        &self.rows
    }

    /// Tells the context what this batch asks for. Those of tokens without logits cost time in the
    /// last layer.
    ///
    /// # Safety
    /// The context must be alive and not shared.
    pub(super) unsafe fn ask(
        &mut self,
        context: NonNull<sys::llama_context>,
        batch: &[BatchToken],
    ) {
        self.rows.clear();
        let give = batch.iter().any(|token| token.hidden);
        let all = batch.iter().any(|token| token.hidden && !token.logits);
        // SAFETY: the caller's promise.
        unsafe { graphmill_give_hidden(context.as_ptr(), give, all) }
    }

    /// Takes what the batch that was just computed has given.
    ///
    /// # Safety
    /// As [`ask`](Self::ask), for the context and the batch that it was called with, on a context
    /// on the model of [`new`](Self::new).
    pub(super) unsafe fn take(
        &mut self,
        context: NonNull<sys::llama_context>,
        batch: &[BatchToken],
    ) -> Result<(), DecodeError> {
        for (index, _) in (0..).zip(batch).filter(|(_, token)| token.hidden) {
            // SAFETY: the caller's promise. The call waits for the computation.
            let row = unsafe { graphmill_hidden(context.as_ptr(), index) };
            if row.is_null() {
                let message = "llama.cpp gave no hidden states".to_owned();
                return Err(DecodeError::Failed(message));
            }
            // SAFETY: llama.cpp keeps `width` floats for each row until the next batch.
            let row = unsafe { slice::from_raw_parts(row, self.width) };
            self.rows.extend_from_slice(row);
        }
        Ok(())
    }
}
