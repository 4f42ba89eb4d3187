//! The batch that a context computes at once, in llama.cpp's form.

use std::ptr;

use llama_cpp_sys_2 as sys;

use super::mrope_positions::Places;
use crate::backend::interface::{BatchImage, BatchToken};

/// The arrays of a `llama_batch`, kept to reuse their memory. Each token, or each embedding in the
/// place of one, belongs to one sequence.
#[derive(Default)]
pub(super) struct Batch {
    tokens: Vec<sys::llama_token>,
    embeddings: Vec<f32>,
    positions: Vec<sys::llama_pos>,
    sequences: Vec<sys::llama_seq_id>,
    sequence_counts: Vec<i32>,
    sequence_lists: Vec<*mut sys::llama_seq_id>,
    logits: Vec<i8>,
    /// True if all tokens ask for logits as soon as one does.
    all_ask: bool,
}

impl Batch {
    /// Makes an empty batch. If `all_ask`, all tokens ask for logits as soon as one does.
    pub(super) fn where_all_ask(all_ask: bool) -> Self {
        Self {
            all_ask,
            ..Self::default()
        }
    }

    /// Builds a batch of tokens.
    pub(super) fn fill(
        &mut self,
        entries: &[BatchToken],
        places: Option<&Places>,
    ) -> sys::llama_batch {
        self.tokens.clear();
        self.positions.clear();
        self.sequences.clear();
        self.logits.clear();
        let all = self.all_ask && entries.iter().any(|entry| entry.logits);
        for entry in entries {
            let cell = entry.position;
            let position = places.map_or(cell, |places| places.position(entry.slot.0, cell));
            self.tokens.push(entry.token);
            self.positions.push(position as sys::llama_pos);
            self.sequences.push(entry.slot.0 as sys::llama_seq_id);
            self.logits.push(i8::from(all || entry.logits));
        }
        let token = self.tokens.as_mut_ptr();
        sys::llama_batch {
            token,
            ..self.positions_batch()
        }
    }

    /// Builds a batch as [`fill`](Self::fill) does, with an embedding beside each token.
    pub(super) fn fill_with_hidden(
        &mut self,
        entries: &[BatchToken],
        hidden: &[f32],
        places: Option<&Places>,
    ) -> sys::llama_batch {
        self.embeddings.clear();
        self.embeddings.extend_from_slice(hidden);
        let embd = self.embeddings.as_mut_ptr();
        sys::llama_batch {
            embd,
            ..self.fill(entries, places)
        }
    }

    /// Builds a batch of hidden states that are encoded independently.
    pub(super) fn fill_states(&mut self, states: &[f32], count: usize) -> sys::llama_batch {
        self.embeddings.clear();
        self.embeddings.extend_from_slice(states);
        self.sequences.clear();
        self.sequences.resize(count, 0);
        self.logits.clear();
        self.logits.resize(count, 1);
        // Without positions, llama.cpp continues those of the sequence.
        sys::llama_batch {
            pos: ptr::null_mut(),
            ..self.embeddings_batch()
        }
    }

    /// Adds images. Returns the width of their embeddings, if all have the same.
    pub(super) fn fill_images(
        &mut self,
        images: &[BatchImage<'_>],
        places: Option<&Places>,
    ) -> Option<usize> {
        self.embeddings.clear();
        self.positions.clear();
        self.sequences.clear();
        self.logits.clear();
        let first = images.first()?;
        let width = first.embeddings.len() / first.positions.max(1) as usize;
        for image in images {
            if image.embeddings.len() != width * image.positions as usize {
                return None;
            }
            self.embeddings.extend_from_slice(image.embeddings);
            for behind in (0..image.positions).rev() {
                self.sequences.push(image.slot.0 as sys::llama_seq_id);
                self.logits.push(i8::from(image.logits && behind == 0));
            }
        }
        match places {
            Some(places) => self.fill_grids(images, places),
            None => self.positions.extend(images.iter().flat_map(|image| {
                (image.first..image.first + image.positions)
                    .map(|position| position as sys::llama_pos)
            })),
        }
        Some(width)
    }

    /// Adds the four numbers that a model with M-RoPE has for each position of an image, grouped by
    /// kind: the start of the image, line, column, and 0. A position of a sound has the same number
    /// three times, as a token's has.
    fn fill_grids(&mut self, images: &[BatchImage<'_>], places: &Places) {
        let count = self.sequences.len();
        self.positions.resize(4 * count, 0);
        let mut index = 0;
        for image in images {
            let begin = places.position(image.slot.0, image.first - image.offset);
            for offset in image.offset..image.offset + image.positions {
                let numbers = match image.tile.columns {
                    Some(columns) => [begin, begin + offset / columns, begin + offset % columns],
                    None => [begin + offset; 3],
                };
                for (number, first) in numbers.into_iter().zip([0, count, 2 * count]) {
                    self.positions[first + index] = number as sys::llama_pos;
                }
                index += 1;
            }
        }
    }

    /// Builds the batch of the images added by [`fill_images`](Self::fill_images).
    pub(super) fn embeddings_batch(&mut self) -> sys::llama_batch {
        let embd = self.embeddings.as_mut_ptr();
        sys::llama_batch {
            embd,
            ..self.positions_batch()
        }
    }

    /// Builds a batch of all positions, without tokens or embeddings.
    fn positions_batch(&mut self) -> sys::llama_batch {
        let count = self.sequences.len();
        self.sequence_counts.resize(count, 1);
        self.sequence_lists.clear();
        // Only after the last `push`, which may move the numbers.
        self.sequence_lists
            .extend(self.sequences.iter_mut().map(ptr::from_mut));
        sys::llama_batch {
            n_tokens: count as i32,
            token: ptr::null_mut(),
            embd: ptr::null_mut(),
            pos: self.positions.as_mut_ptr(),
            n_seq_id: self.sequence_counts.as_mut_ptr(),
            seq_id: self.sequence_lists.as_mut_ptr(),
            logits: self.logits.as_mut_ptr(),
        }
    }
}
