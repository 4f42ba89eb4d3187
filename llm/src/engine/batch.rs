//! Building the batch of a step from the plan, and computing it.

use super::sequence::Sequence;
use super::slots::Slots;
use crate::backend::{Adapters, Backend, BatchImage, BatchToken, DecodeError, Reuse, Slot};
use crate::protocol::SequenceId;
use crate::schedule::{RowWork, StepPlan};
use crate::speculate::Drafting;
use crate::vision::PlacedTile;

/// Maximum size of the logits of prompt tokens in a step, in bytes. Once used, llama.cpp keeps this
/// memory.
const PROMPT_ROWS_BYTES: usize = 64 << 20;

/// The batch of a step. Its memory is reused from step to step.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) tokens: Vec<BatchToken>,
    images: Vec<ImageWork>,
    /// Rows of logits after images, for those that ask for them.
    image_rows: Vec<f32>,
    /// Sequences and positions of the tokens that ask for hidden states, in the batch's order.
    pub(super) hidden: Vec<(SequenceId, u32)>,
    /// Number of drafts among the tokens.
    pub(super) drafted: u32,
    by_slot: Vec<(Slot, RowWork)>,
}

/// Positions of a tile that a step computes.
struct ImageWork {
    tile: PlacedTile,
    first: u32,
    positions: u32,
    slot: Slot,
    logits: bool,
    adapters: Adapters,
}

impl Batch {
    /// Number of positions that the step computes: tokens and positions of images.
    pub(super) fn len(&self) -> usize {
        let images = self.images.iter().map(|image| image.positions as usize);
        self.tokens.len() + images.sum::<usize>()
    }

    /// Rows of logits after images, one after the other, and their number.
    pub(super) fn image_rows(&self) -> (&[f32], usize) {
        let asking = self.images.iter().filter(|image| image.logits);
        (&self.image_rows, asking.count())
    }

    /// Fills the batch in the order of slots. A backend with per-sequence streams computes
    /// neighboring slots together, and reads the weights once more for each gap or step back.
    pub(super) fn fill(
        &mut self,
        plan: &mut StepPlan,
        slots: &mut Slots,
        n_vocab: usize,
        wants_hidden: bool,
    ) {
        limit_prompts(plan, slots, n_vocab);
        self.sort(plan, slots);
        self.tokens.clear();
        self.images.clear();
        self.image_rows.clear();
        self.hidden.clear();
        self.drafted = 0;
        let step = slots.step();
        for work in &plan.work {
            let sequence = slots.working_mut(work);
            sequence.last_step = step;
            let slot = sequence.cells.slot();
            let slot = slot.expect("running sequences have a slot");
            sequence.keep_drafts(work.drafts as usize);
            self.drafted += work.drafts;
            let computed = sequence.cells.computed();
            if let Some(tile) = sequence.tile() {
                self.images.push(ImageWork {
                    tile: tile.clone(),
                    first: computed,
                    positions: work.tokens,
                    slot,
                    logits: sequence.wants_row(computed + work.tokens - 1),
                    adapters: sequence.group.adapters,
                });
                continue;
            }
            let known = &sequence.tokens[computed as usize..][..work.tokens as usize];
            let adapters = sequence.group.adapters;
            let tokens = known.iter().chain(sequence.drafts());
            let hidden = |position: &u32| wants_hidden && sequence.wants_hidden(*position);
            let asking = (computed..computed + work.tokens + work.drafts).filter(hidden);
            self.hidden
                .extend(asking.map(|position| (sequence.id, position)));
            let placed = (computed..).zip(tokens);
            self.tokens
                .extend(placed.map(|(position, token)| BatchToken {
                    token: *token,
                    position,
                    slot,
                    logits: sequence.wants_row(position),
                    hidden: hidden(&position),
                    adapters,
                }));
        }
    }

    fn sort(&mut self, plan: &mut StepPlan, slots: &Slots) {
        self.by_slot.clear();
        self.by_slot.extend(plan.work.iter().map(|work| {
            let slot = slots.working(work).cells.slot();
            (slot.expect("running sequences have a slot"), *work)
        }));
        self.by_slot.sort_unstable_by_key(|(slot, _)| *slot);
        plan.work.clear();
        plan.work.extend(self.by_slot.iter().map(|(_, work)| *work));
    }

    /// Decodes the batch. Meanwhile, other threads compute the token masks for the next tokens of
    /// constrained sequences. They depend on the tokens alone, not on their logits.
    pub(super) fn decode(
        &mut self,
        backend: &mut dyn Backend,
        slots: &mut Slots,
    ) -> Result<(), DecodeError> {
        let step = slots.step();
        let takes_part = |sequence: &&mut Sequence| sequence.last_step == step;
        let mut constrained = slots
            .running_mut()
            .iter_mut()
            .filter(takes_part)
            .filter(|sequence| sequence.is_constrained())
            .peekable();
        if constrained.peek().is_none() {
            return self.compute(backend);
        }
        rayon_core::in_place_scope(|scope| {
            for sequence in constrained {
                scope.spawn(|_| sequence.prepare_masks());
            }
            self.compute(backend)
        })
    }

    /// Computes images first, then tokens.
    fn compute(&mut self, backend: &mut dyn Backend) -> Result<(), DecodeError> {
        if self.images.is_empty() {
            return backend.decode(&self.tokens);
        }
        let images = self.images.iter().map(|work| {
            let (embeddings, positions) = work.tile.embeddings(work.first, work.positions);
            BatchImage {
                embeddings,
                positions,
                first: work.first,
                tile: *work.tile.shape(),
                offset: work.first - work.tile.at(),
                slot: work.slot,
                logits: work.logits,
                adapters: work.adapters,
            }
        });
        let images: Vec<_> = images.collect();
        let mut computed = backend.decode_images(&images, &mut self.image_rows);
        if computed.is_ok() && !self.tokens.is_empty() {
            computed = backend.decode(&self.tokens);
        }
        if computed == Err(DecodeError::NoCells) {
            // The whole step is repeated.
            let is_inside =
                |image: &BatchImage<'_>| image.offset > 0 && image.tile.columns.is_some();
            if backend.capacity().reuse != Reuse::Cells || images.iter().any(is_inside) {
                let message = "the KV cache has too few free cells for images and tokens";
                return Err(DecodeError::Failed(message.to_owned()));
            }
            for image in &images {
                backend.remove(image.slot, image.first);
            }
        }
        computed
    }
}

/// Shortens prompts in the plan to the positions of requested checkpoints, to the boundaries of
/// images, and to the number of requested rows of logits that a step has memory for. A tile that
/// looks ahead waits for a step that is planned with all of it.
fn limit_prompts(plan: &mut StepPlan, slots: &Slots, n_vocab: usize) {
    let row_bytes = n_vocab * size_of::<f32>();
    let mut rows_left = (PROMPT_ROWS_BYTES / row_bytes.max(1)).max(1) as u32;
    for work in &mut plan.work {
        let sequence = slots.working(work);
        let first = sequence.cells.computed();
        let mut tokens = work.tokens;
        if let Some(stop) = sequence.cells.next_stop() {
            tokens = tokens.min(stop - first);
        }
        if let Some(border) = sequence.next_border() {
            tokens = tokens.min(border - first);
            if tokens < sequence.at_once(first) {
                tokens = 0;
            }
        }
        let wanted = |position: &u32| sequence.wants_prompt_row(*position);
        let rows = (first..first + tokens).filter(wanted).count() as u32;
        if rows > rows_left {
            // Rows are requested from some position on to the last but one, so the excess is at
            // the end.
            let before = (first..first + tokens).take_while(|position| !wanted(position));
            tokens = before.count() as u32 + rows_left;
        }
        rows_left -= rows.min(rows_left);
        plan.size.prompt_tokens -= work.tokens - tokens;
        work.tokens = tokens;
    }
    plan.work.retain(|work| work.tokens > 0);
}
