//! The slots of a scripted backend, and the cells that they hold.

use std::ops::Range;

use super::ScriptedBackend;
use crate::backend::{Adapters, Slot};
use crate::protocol::Token;

/// The cells and tokens of one slot.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotContent {
    /// The cell at each position; `None` if it was freed.
    pub(super) cells: Vec<Option<usize>>,
    /// The token at each position.
    pub(super) tokens: Vec<Token>,
}

/// A token in the cache, with the number of slots that have it.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) token: Token,
    pub(super) position: u32,
    /// Index into [`ScriptedBackend::adapters`] of those that it was computed with.
    pub(super) adapters: usize,
    pub(super) slots: u32,
}

impl ScriptedBackend {
    /// Cells that belong to a slot, each counted once.
    pub fn cells_used(&self) -> usize {
        self.cells.len() - self.free_cells.len()
    }

    /// Slots that hold cells, the lowest first.
    pub fn slots_used(&self) -> impl Iterator<Item = Slot> + '_ {
        let slots = (0..).zip(&self.slots);
        slots.filter_map(|(number, held)| (!held.cells.is_empty()).then_some(Slot(number)))
    }

    /// Puts a token at a position of a slot that has none there.
    pub(super) fn fill(&mut self, slot: Slot, position: u32, token: Token, adapters: Adapters) {
        let known = self.adapters.iter().position(|it| *it == adapters);
        let adapters = known.unwrap_or_else(|| {
            self.adapters.push(adapters);
            self.adapters.len() - 1
        });
        let cell = Cell {
            token,
            position,
            adapters,
            slots: 1,
        };
        let index = if let Some(index) = self.free_cells.pop() {
            self.cells[index] = cell;
            index
        } else {
            self.cells.push(cell);
            self.cells.len() - 1
        };
        self.put(slot, position, index);
    }

    pub(super) fn put(&mut self, slot: Slot, position: u32, cell: usize) {
        let held = &mut self.slots[slot.0 as usize];
        let position = position as usize;
        if held.cells.len() <= position {
            held.cells.resize(position + 1, None);
            held.tokens.resize(position + 1, 0);
        }
        assert!(
            held.cells[position].is_none(),
            "a position has one cell in a slot"
        );
        held.cells[position] = Some(cell);
        held.tokens[position] = self.cells[cell].token;
    }

    pub(super) fn free(&mut self, slot: Slot, positions: Range<usize>) {
        let held = &mut self.slots[slot.0 as usize].cells;
        let end = positions.end.min(held.len());
        for place in &mut held[positions.start.min(end)..end] {
            let Some(cell) = place.take() else { continue };
            self.cells[cell].slots -= 1;
            if self.cells[cell].slots == 0 {
                self.free_cells.push(cell);
            }
        }
    }

    /// The state for a checkpoint: the bytes of all tokens of the slot.
    pub(super) fn state(&self, slot: Slot) -> Box<[u8]> {
        let tokens = self.slots[slot.0 as usize].tokens.iter();
        tokens.flat_map(|token| token.to_le_bytes()).collect()
    }

    /// Returns all tokens of a slot. Each must have a cell that was computed with these adapters.
    pub(super) fn history(&self, slot: Slot, adapters: Adapters) -> &[Token] {
        let held = &self.slots[slot.0 as usize];
        for cell in &held.cells {
            let cell = cell.expect("a token needs the cells of all tokens before it");
            assert_eq!(
                self.adapters[self.cells[cell].adapters], adapters,
                "cells of some adapters are of no use to others"
            );
        }
        &held.tokens
    }
}
