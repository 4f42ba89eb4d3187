//! Accounts of the KV cells of sequences. Cells that sequences share are counted once.
//!
//! Cells are recorded as runs. A run continues its parent. A sequence holds its last run and all
//! runs before it.

use slab::Slab;

/// The cells of all sequences of a backend.
#[derive(Debug, Default)]
pub(crate) struct CellBook {
    runs: Slab<CellRun>,
    used: u32,
}

/// Cells of a sequence: its last run; `None` for no cells.
#[derive(Debug, Default)]
pub(crate) struct SequenceCells(Option<usize>);

#[derive(Debug)]
struct CellRun {
    parent: Option<usize>,
    cells: u32,
    /// Number of sequences that end with this run and of runs that continue it.
    references: u32,
}

impl CellBook {
    /// Number of distinct cells in use.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// Adds new cells at the end of a sequence.
    pub(crate) fn grow(&mut self, held: &mut SequenceCells, cells: u32) {
        if cells == 0 {
            return;
        }
        self.used += cells;
        match held.0 {
            Some(run) if self.runs[run].references == 1 => self.runs[run].cells += cells,
            // The new run reuses the sequence's reference to the one it continues.
            parent => {
                held.0 = Some(self.runs.insert(CellRun {
                    parent,
                    cells,
                    references: 1,
                }));
            }
        }
    }

    /// Frees a sequence's last cells, which no other sequence may share.
    pub(crate) fn shrink(&mut self, held: &mut SequenceCells, cells: u32) {
        assert!(
            cells <= self.owned(held),
            "cells of others are not given up"
        );
        let mut left = cells;
        while let Some(run) = held.0.filter(|_| left > 0) {
            let given = self.runs[run].cells.min(left);
            self.runs[run].cells -= given;
            self.used -= given;
            left -= given;
            if self.runs[run].cells == 0 {
                // The sequence takes over the reference of the run.
                held.0 = self.runs.remove(run).parent;
            }
        }
    }

    /// Returns the cells of another sequence that reuses the first `cells` cells of this one.
    pub(crate) fn share(&mut self, held: &SequenceCells, cells: u32) -> SequenceCells {
        let mut end = self.length(held);
        assert!(cells <= end, "{cells} of {end} cells");
        let Some(mut run) = held.0.filter(|_| cells > 0) else {
            return SequenceCells(None);
        };
        while end - self.runs[run].cells >= cells {
            end -= self.runs[run].cells;
            run = self.runs[run]
                .parent
                .expect("there are cells before this run");
        }
        let beyond = end - cells;
        if beyond > 0 {
            let parent = self.runs[run].parent;
            let upper = self.runs.insert(CellRun {
                parent,
                cells: self.runs[run].cells - beyond,
                references: 1,
            });
            self.runs[run].parent = Some(upper);
            self.runs[run].cells = beyond;
            run = upper;
        }
        self.runs[run].references += 1;
        SequenceCells(Some(run))
    }

    /// Frees all cells of a sequence.
    pub(crate) fn release(&mut self, held: &mut SequenceCells) {
        let mut next = held.0.take();
        while let Some(run) = next {
            self.runs[run].references -= 1;
            if self.runs[run].references > 0 {
                return;
            }
            let run = self.runs.remove(run);
            self.used -= run.cells;
            next = run.parent;
        }
    }

    /// Number of cells that become free if the sequence frees its cells.
    pub(crate) fn owned(&self, held: &SequenceCells) -> u32 {
        let alone = self
            .chain(held)
            .take_while(|run| self.runs[*run].references == 1);
        alone.map(|run| self.runs[run].cells).sum()
    }

    fn length(&self, held: &SequenceCells) -> u32 {
        self.chain(held).map(|run| self.runs[run].cells).sum()
    }

    fn chain(&self, held: &SequenceCells) -> impl Iterator<Item = usize> {
        std::iter::successors(held.0, |run| self.runs[*run].parent)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_shared_beginning_counts_once() {
        let mut book = CellBook::default();
        let (mut first, mut second) = (SequenceCells::default(), SequenceCells::default());
        book.grow(&mut first, 100);
        second.0 = book.share(&first, 60).0;
        book.grow(&mut second, 5);
        assert_eq!(book.used(), 105);
        assert_eq!((book.owned(&first), book.owned(&second)), (40, 5));
        book.release(&mut first);
        assert_eq!((book.used(), book.owned(&second)), (65, 65));
        book.release(&mut second);
        assert_eq!(book.used(), 0);
    }

    #[derive(Clone, Debug)]
    enum Change {
        Grow(usize, u32),
        Share(usize, usize, u32),
        Shrink(usize, u32),
        Release(usize),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            (0..6_usize, 0..9_u32).prop_map(|(who, cells)| Change::Grow(who, cells)),
            (0..6_usize, 0..6_usize, 0..30_u32)
                .prop_map(|(from, to, cells)| Change::Share(from, to, cells)),
            (0..6_usize, 0..9_u32).prop_map(|(who, cells)| Change::Shrink(who, cells)),
            (0..6_usize).prop_map(Change::Release),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

        #[test]
        fn the_book_agrees_with_a_list_of_every_cell(changes in prop::collection::vec(change(), 1..60)) {
            let mut book = CellBook::default();
            let mut held: BTreeMap<usize, (SequenceCells, Vec<u32>)> = BTreeMap::new();
            let mut next_cell = 0;
            for change in changes {
                match change {
                    Change::Grow(who, cells) => {
                        let (held, list) = held.entry(who).or_default();
                        book.grow(held, cells);
                        list.extend(next_cell..next_cell + cells);
                        next_cell += cells;
                    }
                    Change::Share(from, to, cells) => {
                        if held.get(&to).is_some_and(|(_, list)| !list.is_empty()) {
                            continue; // only an empty sequence reuses cells
                        }
                        let Some((donor, list)) = held.get(&from) else { continue };
                        let cells = cells.min(list.len() as u32);
                        let list = list[..cells as usize].to_vec();
                        let taken = book.share(donor, cells);
                        held.insert(to, (taken, list));
                    }
                    Change::Shrink(who, cells) => {
                        if let Some((held, list)) = held.get_mut(&who) {
                            let cells = cells.min(book.owned(held));
                            book.shrink(held, cells);
                            list.truncate(list.len() - cells as usize);
                        }
                    }
                    Change::Release(who) => {
                        if let Some((mut held, _)) = held.remove(&who) {
                            book.release(&mut held);
                        }
                    }
                }
                let distinct: BTreeSet<u32> = held.values().flat_map(|(_, list)| list.iter().copied()).collect();
                prop_assert_eq!(book.used(), distinct.len() as u32);
                for (who, (held_by_it, list)) in &held {
                    let others: BTreeSet<u32> = held
                        .iter()
                        .filter(|(other, _)| *other != who)
                        .flat_map(|(_, (_, list))| list.iter().copied())
                        .collect();
                    let alone = list.iter().filter(|cell| !others.contains(cell)).count();
                    prop_assert_eq!(book.owned(held_by_it), alone as u32);
                }
            }
        }
    }
}
