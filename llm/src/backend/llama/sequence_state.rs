//! What llama.cpp keeps of a sequence, copied to host memory and back.
//!
//! A plain model has one cache with a cell for each token; a model with an indexer has a second one
//! with as many cells. A hybrid model has a cell for each token in its attention layers and one state
//! in the others; a model with sliding windows has another cache, which it holds only as much of as
//! the windows see. llama.cpp writes such a sequence as its cells and the rest, and the rest also by
//! itself: that is a checkpoint. A recurrent model has the rest alone. Of a model with compressed
//! cells, a checkpoint is all that a sequence has.

use std::num::NonZero;
use std::ops::Range;
use std::sync::Arc;

use super::ffi::{Context, Model, StatePart};
use super::kv_state::{self, Form, Layout};
use crate::backend::interface::{Checkpoint, Reuse, SaveError, SavedCells, SavedPart};

/// Memory for states that is kept from one to the next.
const MAX_STATE_BYTES: usize = 32 << 20;
/// A magic number and a sequence's id.
const HEADER: usize = 8;

/// Copies states of the sequences of one context.
pub(super) struct SequenceStates {
    kind: Kind,
    layout: Layout,
    /// Bytes of what a cell has beside its position, if it has anything.
    extension: Option<NonZero<usize>>,
    /// How llama.cpp writes the cells of this context, once some were saved.
    form: Option<Form>,
    /// The state of a sequence on its way. Kept, because the first use of memory takes ten times as
    /// long as the copy itself.
    state: Vec<u8>,
}

/// What a sequence's state is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A cell for each token.
    Cells,
    /// A cell for each token, and something else.
    CellsAndRest,
    /// No cells.
    Rest,
    /// Cells that stand for several tokens: a checkpoint has all of them.
    Whole,
    /// Something else.
    Unknown,
}

impl SequenceStates {
    /// For a context on this model with so many streams of cells, none of which is in use.
    pub(super) fn new(context: &mut Context<'_>, model: &Model, streams: u32) -> Self {
        let (kind, layout) = kind(context, model, streams);
        Self {
            kind,
            layout,
            extension: model.cell_extension(),
            form: None,
            state: Vec::new(),
        }
    }

    /// How a sequence goes on from another one.
    pub(super) fn reuse(&self) -> Reuse {
        match self.kind {
            Kind::Cells => Reuse::Cells,
            Kind::CellsAndRest | Kind::Rest | Kind::Whole => Reuse::Checkpoints,
            Kind::Unknown => Reuse::Never,
        }
    }

    /// Whether cells are saved one by one.
    pub(super) fn has_cells(&self) -> bool {
        matches!(self.kind, Kind::Cells | Kind::CellsAndRest)
    }

    /// Copies cells of a sequence, a piece for each range of positions.
    pub(super) fn save(
        &mut self,
        context: &mut Context<'_>,
        sequence: u32,
        pieces: &[Range<u32>],
    ) -> Result<Vec<SavedCells>, SaveError> {
        if !self.has_cells() {
            let none = |piece: &Range<u32>| {
                SavedCells::new(Arc::default(), piece.len() as u32, Vec::new())
            };
            return Ok(pieces.iter().map(none).collect());
        }
        context.read_state(sequence, StatePart::Whole, &mut self.state)?;
        let rest = match self.kind {
            Kind::CellsAndRest => context.state_size(sequence, StatePart::Partial) - HEADER,
            Kind::Cells | Kind::Rest | Kind::Whole | Kind::Unknown => 0,
        };
        let extension = self.extension.zip(context.placed_cells(sequence));
        let parsed = kv_state::parse(&self.state, self.layout, rest, extension)?;
        let form = self.form.get_or_insert_with(|| parsed.form.clone());
        if *form != parsed.form {
            return Err(SaveError("the form of its state has changed".to_owned()));
        }
        let cells = pieces.iter().map(|piece| parsed.cells(piece)).collect();
        self.trim();
        cells
    }

    /// Copies what a sequence has beside its cells that can be saved.
    pub(super) fn checkpoint(
        &mut self,
        context: &mut Context<'_>,
        sequence: u32,
    ) -> Result<Checkpoint, SaveError> {
        let part = match self.kind {
            Kind::Whole => StatePart::Whole,
            _ => StatePart::Partial,
        };
        context.read_state(sequence, part, &mut self.state)?;
        let checkpoint = Checkpoint(self.state.as_slice().into());
        self.trim();
        Ok(checkpoint)
    }

    /// Gives an empty sequence saved cells, the first at a position, and what it has beside them.
    pub(super) fn restore(
        &mut self,
        context: &mut Context<'_>,
        sequence: u32,
        from: u32,
        parts: &[SavedPart<'_>],
        checkpoint: Option<&Checkpoint>,
    ) -> Result<(), SaveError> {
        let checkpoint = checkpoint.map_or(&[][..], |checkpoint| &checkpoint.0);
        if !self.has_cells() {
            return context.write_state(sequence, checkpoint);
        }
        let form = self.form.as_ref();
        let form = form.ok_or_else(|| SaveError("nothing was saved".to_owned()))?;
        let rest = checkpoint.get(HEADER..).unwrap_or_default();
        kv_state::build(form, from, parts, rest, &mut self.state);
        let restored = context.write_state(sequence, &self.state);
        self.trim();
        restored?;
        if self.extension.is_some() {
            let (positions, next) = kv_state::positions(parts);
            context.place(sequence, from, positions, next);
        }
        Ok(())
    }

    /// Copies all that a sequence has to an empty one.
    pub(super) fn copy(
        &mut self,
        context: &mut Context<'_>,
        from: u32,
        to: u32,
    ) -> Result<(), SaveError> {
        context.read_state(from, StatePart::Whole, &mut self.state)?;
        let copied = context.write_state(to, &self.state);
        self.trim();
        copied?;
        context.place_as(from, to);
        Ok(())
    }

    /// Gives back the memory of a state that is larger than most.
    fn trim(&mut self) {
        if self.state.capacity() > MAX_STATE_BYTES {
            self.state = Vec::new();
        }
    }
}

/// What states are made of, and in which order, from what llama.cpp writes of a sequence that has
/// nothing: for each cache with a cell for each token the number of streams and of the cells in each,
/// and whatever else there is.
fn kind(context: &mut Context<'_>, model: &Model, streams: u32) -> (Kind, Layout) {
    // The sizes below do not tell a cell of several tokens from one of a single token.
    let compresses = model.architecture() == "deepseek4";
    let has_states = model.has_states();
    let whole = context.state_size(0, StatePart::Whole);
    let one_cache = 4 + 4 * streams as usize;
    let caches = |bytes: usize| {
        let caches = bytes / one_cache;
        Layout {
            caches,
            // Behind its states, a model with states has the second one.
            before_rest: if has_states { 1 } else { caches },
        }
    };
    if !has_states && model.attention_window() == 0 {
        return (Kind::Cells, caches(whole.saturating_sub(HEADER)));
    }
    let rest = context.state_size(0, StatePart::Partial);
    if whole == 0 {
        return (Kind::Unknown, caches(0)); // llama.cpp cannot write it
    }
    if compresses {
        return (Kind::Whole, caches(0));
    }
    match whole.checked_sub(rest) {
        Some(0) if model.is_recurrent() => (Kind::Rest, caches(0)),
        Some(0) if !has_states => (Kind::Cells, caches(one_cache)),
        Some(cells) if cells > 0 && cells.is_multiple_of(one_cache) => {
            (Kind::CellsAndRest, caches(cells))
        }
        _ => (Kind::Unknown, caches(0)),
    }
}
