//! Hidden states of a context: a model's intermediate results for a token, between its layers and
//! behind the last one, before logits are computed. MTP layers and EAGLE3 models draft from them.

use std::slice;

use llama_cpp_sys_2 as sys;

use super::Model;
use crate::backend::interface::{BatchToken, DecodeError};

unsafe extern "C" {
    fn graphmill_give_hidden(context: *mut sys::llama_context, give: bool, all: bool);
    fn graphmill_hidden(context: *mut sys::llama_context, index: i32) -> *const f32;
    fn graphmill_give_layer(context: *mut sys::llama_context, layer: u32);
    fn graphmill_layer(context: *mut sys::llama_context, layer: u32) -> *const f32;
    fn graphmill_target_layers(model: *const sys::llama_model, layers: *mut i32, room: u32) -> u32;
}

/// Makes a new context skip unneeded work. By default, some architectures (gpt-oss, Qwen3.5, Gemma
/// 4 and others) compute the feed-forward part of their last layer for all tokens of a prompt, in
/// case hidden states are wanted.
///
/// # Safety
/// The context must be alive and not shared.
pub(super) unsafe fn leave_out(context: *mut sys::llama_context) {
    // SAFETY: the caller's promise.
    unsafe { graphmill_give_hidden(context, false, false) }
}

/// Returns the layers of another model that an EAGLE3 model drafts from, counted from 0; empty for
/// all other models.
pub(crate) fn target_layers(model: &Model) -> Vec<u32> {
    /// Maximum number of layers; no model has more.
    const ROOM: usize = 16;
    let mut layers = [0; ROOM];
    // SAFETY: the model is alive, and `layers` has as much room as is told.
    let count = unsafe {
        let model = model.as_ptr().cast_const();
        graphmill_target_layers(model, layers.as_mut_ptr(), ROOM as u32)
    };
    let layers = layers.iter().take(count as usize);
    layers
        .map(|layer| u32::try_from(*layer).unwrap_or(u32::MAX))
        .collect()
}

/// Architectures whose layer inputs llama.cpp provides. For others it would end the process.
const GIVE_LAYERS: [&str; 20] = [
    "bailingmoe3",
    "deepseek4",
    "gemma4",
    "gpt-oss",
    "hunyuan_vl",
    "lfm2",
    "lfm2moe",
    "llama",
    "mimo2",
    "minimax-01",
    "minimax-m2",
    "muse-glimmer",
    "nanbeige",
    "nemotron_h",
    "nemotron_h_moe",
    "qwen3",
    "qwen35",
    "qwen35moe",
    "qwen3moe",
    "qwen3next",
];

/// Checks that a model provides the inputs of these layers. The error says why it does not.
pub(crate) fn check_layers(model: &Model, wanted: &[u32]) -> Result<(), String> {
    let architecture = model.architecture();
    let layers = model.n_layer();
    if let Some(layer) = wanted.iter().find(|layer| **layer >= layers) {
        return Err(format!(
            "it drafts from layer {layer}, and the model has {layers} layers"
        ));
    }
    if !GIVE_LAYERS.contains(&architecture.as_str()) {
        return Err(format!(
            "llama.cpp does not provide the layer inputs of `{architecture}` models"
        ));
    }
    Ok(())
}

/// Kind of hidden states that a context provides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HiddenOf {
    /// The state behind all layers.
    Model,
    /// The inputs of these layers, concatenated.
    Layers(Vec<u32>),
}

/// The hidden states of a context's last batch.
pub(super) struct Hidden {
    of: HiddenOf,
    /// Length of a state, in numbers.
    pub(super) width: usize,
    /// One state for each token that asked for it, in the batch's order.
    pub(super) rows: Vec<f32>,
}

impl Hidden {
    /// Requests the hidden states of a context. The error says why it has none.
    ///
    /// # Safety
    /// The context must be alive, not shared, and on this model.
    pub(super) unsafe fn new(
        context: *mut sys::llama_context,
        model: &Model,
        of: HiddenOf,
    ) -> Result<Self, String> {
        let width = match &of {
            HiddenOf::Model => model.output_width() as usize,
            HiddenOf::Layers(layers) => {
                check_layers(model, layers)?;
                for layer in layers {
                    // SAFETY: the caller's promise. The model has the layer, and llama.cpp gives what
                    // goes into it.
                    unsafe { graphmill_give_layer(context, *layer) }
                }
                layers.len() * model.n_embd() as usize
            }
        };
        Ok(Self {
            of,
            width,
            rows: Vec::new(),
        })
    }

    /// Requests the states that this batch asks for. States behind all layers cost time in the last
    /// layer for tokens without logits.
    ///
    /// # Safety
    /// The context must be alive and not shared.
    pub(super) unsafe fn ask(&mut self, context: *mut sys::llama_context, batch: &[BatchToken]) {
        self.rows.clear();
        if self.of == HiddenOf::Model {
            let give = batch.iter().any(|token| token.hidden);
            let all = batch.iter().any(|token| token.hidden && !token.logits);
            // SAFETY: the caller's promise.
            unsafe { graphmill_give_hidden(context, give, all) }
        }
    }

    /// Requests a state for each entry of the next batches, which are encoded.
    ///
    /// # Safety
    /// The context must be alive and not shared.
    pub(super) unsafe fn ask_for_all(&mut self, context: *mut sys::llama_context) {
        self.rows.clear();
        // SAFETY: the caller's promise.
        unsafe { graphmill_give_hidden(context, true, false) }
    }

    /// Appends the states of the batch that was just computed, at these places in it.
    ///
    /// # Safety
    /// The context must be that of [`new`](Self::new), and what was computed last a batch that has
    /// these places, and that it was asked for before.
    pub(super) unsafe fn take(
        &mut self,
        context: *mut sys::llama_context,
        places: impl Iterator<Item = usize> + Clone,
    ) -> Result<(), DecodeError> {
        let begin = self.rows.len();
        match &self.of {
            HiddenOf::Model => {
                for place in places {
                    // SAFETY: the caller's promise. The call waits for the computation.
                    let row = unsafe { graphmill_hidden(context, place as i32) };
                    // SAFETY: llama.cpp keeps `width` floats for each row until the next batch.
                    self.rows.extend(unsafe { numbers(row, self.width)? });
                }
            }
            HiddenOf::Layers(layers) => {
                let part = self.width / layers.len().max(1);
                self.rows
                    .resize(begin + places.clone().count() * self.width, 0.0);
                for (index, layer) in layers.iter().enumerate() {
                    // SAFETY: the caller's promise. The call waits for the computation.
                    let all = unsafe { graphmill_layer(context, *layer) };
                    let rows = self.rows[begin..].chunks_exact_mut(self.width);
                    for (place, row) in places.clone().zip(rows) {
                        // SAFETY: llama.cpp keeps a row of `part` floats for each token of the batch,
                        // until the next one.
                        let given = unsafe { numbers(all.wrapping_add(place * part), part)? };
                        row[index * part..][..part].copy_from_slice(given);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Borrows `count` numbers from llama.cpp; an error if the pointer is null.
///
/// # Safety
/// They are there, unless `numbers` is null, and do not change as long as the result lives.
unsafe fn numbers<'a>(numbers: *const f32, count: usize) -> Result<&'a [f32], DecodeError> {
    if numbers.is_null() {
        let message = "llama.cpp gave no hidden states".to_owned();
        return Err(DecodeError::Failed(message));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { slice::from_raw_parts(numbers, count) })
}
