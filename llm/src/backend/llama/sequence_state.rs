//! States of sequences, copied to host memory and back.
//!
//! A plain model has one cache with a cell for each token; a model with an indexer has a second one
//! with as many cells. A hybrid model has a cell for each token in its attention layers and one
//! state in the others. A model with sliding windows has another cache, which holds only the tokens
//! that the windows see. llama.cpp writes such a sequence as its cells and the rest. It can also
//! write the rest alone: that is a checkpoint. A recurrent model has only the rest. For a model
//! with compressed cells, a checkpoint holds the whole state.

use std::num::NonZero;
use std::ops::Range;
use std::sync::Arc;

use super::ffi::{Context, Model, StatePart};
use super::kv_state::{self, StateForm, StateLayout};
use crate::backend::interface::{Checkpoint, Reuse, SaveError, SavedCells, SavedPart};

/// Maximum size of the buffer that is kept for the next state, in bytes.
const MAX_STATE_BYTES: usize = 32 << 20;
/// Size of the magic number and the sequence's id, in bytes.
const HEADER: usize = 8;

/// Copies states of the sequences of one context.
pub(super) struct SequenceStates {
    kind: StateKind,
    layout: StateLayout,
    /// Size of a cell's extension, in bytes; `None` if cells have none.
    extension: Option<NonZero<usize>>,
    /// Form of this context's cells; known once some were saved.
    form: Option<StateForm>,
    /// Buffer for the state of a sequence. It is kept, because the first use of memory takes ten
    /// times as long as the copy itself.
    state: Vec<u8>,
}

/// Composition of a sequence's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StateKind {
    /// A cell for each token.
    Cells,
    /// A cell for each token, and other state.
    CellsAndRest,
    /// Only state outside of cells.
    Rest,
    /// Cells that stand for several tokens. A checkpoint holds all of them.
    Whole,
    /// A form that cannot be saved.
    Unknown,
}

impl SequenceStates {
    /// Inspects an empty context on this model. `streams` is its number of streams of cells.
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

    /// Returns the means by which a sequence can continue from another one.
    pub(super) fn reuse(&self) -> Reuse {
        match self.kind {
            StateKind::Cells => Reuse::Cells,
            StateKind::CellsAndRest | StateKind::Rest | StateKind::Whole => Reuse::Checkpoints,
            StateKind::Unknown => Reuse::Never,
        }
    }

    /// Returns true if cells are saved one by one.
    pub(super) fn has_cells(&self) -> bool {
        matches!(self.kind, StateKind::Cells | StateKind::CellsAndRest)
    }

    /// Copies cells of a sequence, one copy for each range of positions.
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
        let mut rest = 0;
        if self.kind == StateKind::CellsAndRest {
            rest = context.state_size(sequence, StatePart::Partial) - HEADER;
        }
        let cells = context.places.as_ref().map(|places| places.cells(sequence));
        let extension = self.extension.zip(cells);
        let parsed = kv_state::parse(&self.state, self.layout, rest, extension)?;
        let form = self.form.get_or_insert_with(|| parsed.form.clone());
        if *form != parsed.form {
            return Err(SaveError("the form of its state has changed".to_owned()));
        }
        let cells = pieces.iter().map(|piece| parsed.cells(piece)).collect();
        self.trim();
        cells
    }

    /// Copies the checkpoint of a sequence: its state outside of cells that are saved one by one.
    pub(super) fn checkpoint(
        &mut self,
        context: &mut Context<'_>,
        sequence: u32,
    ) -> Result<Checkpoint, SaveError> {
        let part = match self.kind {
            StateKind::Whole => StatePart::Whole,
            _ => StatePart::Partial,
        };
        context.read_state(sequence, part, &mut self.state)?;
        let checkpoint = Checkpoint(self.state.as_slice().into());
        self.trim();
        Ok(checkpoint)
    }

    /// Restores an empty sequence from saved cells, the first at position `from`, and a checkpoint.
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
        if let Some(places) = &mut context.places {
            let (positions, next) = kv_state::positions(parts);
            places.restore(sequence, from, positions, next);
        }
        Ok(())
    }

    /// Copies the whole state of a sequence to an empty one.
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
        if let Some(places) = &mut context.places {
            places.share(from, to, places.cells(from));
        }
        Ok(())
    }

    /// Frees the buffer if the last state was unusually large.
    fn trim(&mut self) {
        if self.state.capacity() > MAX_STATE_BYTES {
            self.state = Vec::new();
        }
    }
}

/// Finds the composition of states and their order. llama.cpp's state of an empty sequence shows
/// them: for each cache with a cell for each token, the number of streams and of the cells in each,
/// and then the rest.
fn kind(context: &mut Context<'_>, model: &Model, streams: u32) -> (StateKind, StateLayout) {
    // The sizes below do not distinguish a cell of several tokens from one of a single token.
    let compresses = model.architecture() == "deepseek4";
    let has_states = model.has_states();
    let whole = context.state_size(0, StatePart::Whole);
    let one_cache = 4 + 4 * streams as usize;
    let caches = |bytes: usize| {
        let caches = bytes / one_cache;
        StateLayout {
            caches,
            // In a model with states, the second cache is behind them.
            before_rest: if has_states { 1 } else { caches },
        }
    };
    if !has_states && model.attention_window() == 0 {
        return (StateKind::Cells, caches(whole.saturating_sub(HEADER)));
    }
    let rest = context.state_size(0, StatePart::Partial);
    if whole == 0 {
        return (StateKind::Unknown, caches(0)); // llama.cpp cannot write it
    }
    if compresses {
        return (StateKind::Whole, caches(0));
    }
    match whole.checked_sub(rest) {
        Some(0) if model.is_recurrent() => (StateKind::Rest, caches(0)),
        Some(0) if !has_states => (StateKind::Cells, caches(one_cache)),
        Some(cells) if cells > 0 && cells.is_multiple_of(one_cache) => {
            (StateKind::CellsAndRest, caches(cells))
        }
        _ => (StateKind::Unknown, caches(0)),
    }
}
