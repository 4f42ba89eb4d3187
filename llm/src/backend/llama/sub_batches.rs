//! Divides a batch into the computations that together cost least, where each sequence has a stream
//! of cells.
//!
//! llama.cpp computes equally many tokens of neighboring sequences in one pass over the weights.
//! What sequences have beyond the shortest of them takes another pass, and so does each gap between
//! sequences. In a pass, plain attention looks at as many cells of every sequence as the longest
//! one has: beside one long sequence, short ones are as dear as long ones. A pass that reads the
//! weights once more is then often cheaper than one pass for all.
//!
//! The cost is counted in cells that a token's attention looks at; a pass costs as many as take the
//! time in which the weights are read once.
//!
//! A pass is computed with one adapter, or with none. Where nothing else divides batches, adapters
//! still do.

use super::ffi::Context;
use crate::backend::interface::{Adapter, BatchToken, DecodeError, Slot};

/// llama.cpp rounds the cells of a pass up to a multiple of this.
const CELL_GRAIN: u32 = 256;

/// Computes batches pass by pass.
pub(super) struct Divided {
    passes: Passes,
    /// The tokens of a pass, kept to reuse their memory.
    pass: Vec<BatchToken>,
    /// The logits of a batch that took several passes; empty after others.
    rows: Vec<f32>,
    /// The hidden states of such a batch.
    hidden: Vec<f32>,
}

impl Divided {
    /// For weights of so many bytes, and attention that reads so many bytes for a token and a cell.
    pub(super) fn new(weights_bytes: u64, bytes_per_cell: u64) -> Self {
        Self {
            passes: Passes::new(Some(weights_bytes / bytes_per_cell.max(1))),
            pass: Vec::new(),
            rows: Vec::new(),
            hidden: Vec::new(),
        }
    }

    /// For models that have to compute each sequence by itself.
    pub(super) fn by_sequence() -> Self {
        Self::new(0, 1)
    }

    /// For sequences whose lengths make no difference: only adapters divide them.
    pub(super) fn by_adapter() -> Self {
        Self {
            passes: Passes::new(None),
            pass: Vec::new(),
            rows: Vec::new(),
            hidden: Vec::new(),
        }
    }

    /// Computes a batch whose sequences come one after the other, in the order of slots.
    pub(super) fn decode(
        &mut self,
        context: &mut Context<'_>,
        batch: &[BatchToken],
    ) -> Result<(), DecodeError> {
        self.rows.clear();
        self.hidden.clear();
        self.passes.divide(batch);
        if self.passes.len() <= 1 {
            context.use_adapter(batch.first().and_then(|token| token.adapter));
            return context.decode(batch);
        }
        let n_vocab = context.n_vocab();
        let asked = batch.iter().filter(|token| token.logits).count();
        self.rows.resize(asked * n_vocab, 0.0);
        let width = context.hidden_width();
        let asked = batch.iter().filter(|token| token.hidden).count();
        self.hidden.resize(asked * width, 0.0);
        for (number, indices) in self.passes.iter().enumerate() {
            self.pass.clear();
            self.pass.extend(indices.iter().map(|index| batch[*index]));
            context.use_adapter(self.pass.first().and_then(|token| token.adapter));
            if let Err(error) = context.decode(&self.pass) {
                self.rows.clear();
                if error == DecodeError::NoCells {
                    // The cells of the passes before are given back, if the model can go back.
                    let mut before = self.passes.iter().take(number).flatten();
                    let went_back = before.all(|index| {
                        let token = &batch[*index];
                        context.remove(token.slot.0, token.position)
                    });
                    if !went_back {
                        let message = "the KV cache has too few free cells for all adapters";
                        return Err(DecodeError::Failed(message.to_owned()));
                    }
                }
                return Err(error);
            }
            let logits = context.logits();
            put_in_order(&mut self.rows, batch, indices, logits, n_vocab, |token| {
                token.logits
            });
            let hidden = context.hidden();
            put_in_order(&mut self.hidden, batch, indices, hidden, width, |token| {
                token.hidden
            });
        }
        Ok(())
    }

    /// The rows of logits of the last batch, in its order.
    pub(super) fn logits<'a>(&'a self, context: &'a Context<'_>) -> &'a [f32] {
        if self.rows.is_empty() {
            context.logits()
        } else {
            &self.rows
        }
    }

    /// The hidden states of the last batch, in its order.
    pub(super) fn hidden<'a>(&'a self, context: &'a Context<'_>) -> &'a [f32] {
        if self.hidden.is_empty() {
            context.hidden()
        } else {
            &self.hidden
        }
    }
}

/// Puts rows that a pass has computed, one for each of its tokens that asked, to the places that they
/// have in the whole batch.
fn put_in_order(
    rows: &mut [f32],
    batch: &[BatchToken],
    pass: &[usize],
    computed: &[f32],
    width: usize,
    asks: impl Fn(&BatchToken) -> bool,
) {
    let asked = pass.iter().filter(|index| asks(&batch[**index]));
    for (index, computed) in asked.zip(computed.chunks_exact(width.max(1))) {
        let row = batch[..*index].iter().filter(|token| asks(token)).count() * width;
        rows[row..row + width].copy_from_slice(computed);
    }
}

/// The division of a batch. Kept between steps to reuse its memory.
struct Passes {
    /// What a pass costs, in cells; `None` where only adapters divide batches.
    pass_cost: Option<u64>,
    /// Indices into the batch, pass by pass.
    order: Vec<usize>,
    /// Where each pass ends in `order`.
    ends: Vec<usize>,
    /// The passes one adapter after the other, as another adapter costs a little; then where they
    /// are in `order`.
    by_adapter: Vec<(Option<Adapter>, usize, usize)>,
    parts: Vec<Part>,
    /// For the first parts: the least cost, and where the last group of the division that has it
    /// begins.
    best: Vec<(u64, usize)>,
    groups: Vec<(usize, usize)>,
}

/// The tokens of one sequence in the batch.
#[derive(Clone, Copy, Debug)]
struct Part {
    slot: Slot,
    adapter: Option<Adapter>,
    /// Index of its first token.
    first: usize,
    tokens: usize,
    /// Cells it has after the batch, rounded up.
    cells: u64,
}

/// Neighboring parts that begin with a pass for all; what some have beyond the shortest takes a
/// pass each.
#[derive(Default)]
struct Group {
    parts: u64,
    /// Tokens of the shortest, and how many have no more.
    tokens: u64,
    shortest: u64,
    /// Cells of the longest.
    cells: u64,
    /// Sums over the parts: cells, and cells for each token.
    sum: u64,
    sum_by_token: u64,
}

impl Group {
    fn add(&mut self, part: &Part) {
        let tokens = part.tokens as u64;
        if self.parts == 0 || tokens < self.tokens {
            self.tokens = tokens;
            self.shortest = 0;
        }
        self.shortest += u64::from(tokens == self.tokens);
        self.parts += 1;
        self.cells = self.cells.max(part.cells);
        self.sum += part.cells;
        self.sum_by_token += tokens * part.cells;
    }

    fn cost(&self, pass_cost: u64) -> u64 {
        let passes = 1 + self.parts - self.shortest;
        let together = self.parts * self.tokens * self.cells;
        let beyond = self.sum_by_token - self.tokens * self.sum;
        passes * pass_cost + together + beyond
    }
}

impl Passes {
    fn new(pass_cost: Option<u64>) -> Self {
        Self {
            pass_cost,
            order: Vec::new(),
            ends: Vec::new(),
            by_adapter: Vec::new(),
            parts: Vec::new(),
            best: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Divides a batch whose sequences come one after the other, in the order of slots.
    fn divide(&mut self, batch: &[BatchToken]) {
        self.order.clear();
        self.ends.clear();
        if let Some(pass_cost) = self.pass_cost {
            self.find_parts(batch);
            let mut from = 0;
            for next in 1..=self.parts.len() {
                if next == self.parts.len()
                    || self.parts[next].slot.0 != self.parts[next - 1].slot.0 + 1
                    || self.parts[next].adapter != self.parts[next - 1].adapter
                {
                    self.divide_neighbors(from, next, pass_cost);
                    from = next;
                }
            }
        } else {
            self.divide_adapters(batch);
        }
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let ends = self.ends.iter().copied();
        self.by_adapter.clear();
        self.by_adapter.extend(
            begins
                .zip(ends)
                .map(|(begin, end)| (batch[self.order[begin]].adapter, begin, end)),
        );
        self.by_adapter.sort_unstable();
    }

    /// The passes, as indices into the batch. Those of a sequence are in order.
    fn iter(&self) -> impl Iterator<Item = &[usize]> {
        let passes = self.by_adapter.iter();
        passes.map(|(_, begin, end)| &self.order[*begin..*end])
    }

    /// How many passes there are.
    fn len(&self) -> usize {
        self.by_adapter.len()
    }

    fn divide_adapters(&mut self, batch: &[BatchToken]) {
        self.order.extend(0..batch.len());
        self.order
            .sort_unstable_by_key(|index| (batch[*index].adapter, *index));
        for next in 1..=batch.len() {
            let adapter = |place: usize| batch[self.order[place]].adapter;
            if next == batch.len() || adapter(next) != adapter(next - 1) {
                self.ends.push(next);
            }
        }
    }

    fn find_parts(&mut self, batch: &[BatchToken]) {
        self.parts.clear();
        for (index, token) in batch.iter().enumerate() {
            let cells = (token.position + 1).next_multiple_of(CELL_GRAIN);
            match self.parts.last_mut().filter(|part| part.slot == token.slot) {
                Some(part) => {
                    part.tokens += 1;
                    part.cells = u64::from(cells);
                }
                None => self.parts.push(Part {
                    slot: token.slot,
                    adapter: token.adapter,
                    first: index,
                    tokens: 1,
                    cells: u64::from(cells),
                }),
            }
        }
    }

    /// Finds the groups of neighboring parts that together cost least.
    fn divide_neighbors(&mut self, from: usize, to: usize, pass_cost: u64) {
        self.best.clear();
        self.best.push((0, from));
        for end in from + 1..=to {
            let mut group = Group::default();
            let mut least = (u64::MAX, from);
            for begin in (from..end).rev() {
                group.add(&self.parts[begin]);
                let cost = self.best[begin - from].0 + group.cost(pass_cost);
                if cost < least.0 {
                    least = (cost, begin);
                }
            }
            self.best.push(least);
        }
        self.groups.clear();
        let mut end = to;
        while end > from {
            let begin = self.best[end - from].1;
            self.groups.push((begin, end));
            end = begin;
        }
        while let Some((begin, end)) = self.groups.pop() {
            self.add_group(begin, end);
        }
    }

    fn add_group(&mut self, begin: usize, end: usize) {
        let parts = &self.parts[begin..end];
        let together = parts.iter().map(|part| part.tokens).min().unwrap_or(0);
        for part in parts {
            self.order.extend(part.first..part.first + together);
        }
        self.ends.push(self.order.len());
        for part in parts.iter().filter(|part| part.tokens > together) {
            self.order
                .extend(part.first + together..part.first + part.tokens);
            self.ends.push(self.order.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pass costs as much as 4000 cells.
    fn divide(parts: &[(u32, u32, u32)]) -> Vec<Vec<(u32, usize)>> {
        divide_with(Passes::new(Some(4_000)), parts, |_| None)
    }

    fn divide_with(
        mut passes: Passes,
        parts: &[(u32, u32, u32)],
        adapter: impl Fn(u32) -> Option<u32>,
    ) -> Vec<Vec<(u32, usize)>> {
        let mut batch = Vec::new();
        for (slot, computed, tokens) in parts {
            batch.extend((0..*tokens).map(|ahead| BatchToken {
                token: 0,
                position: computed + ahead,
                slot: Slot(*slot),
                logits: false,
                hidden: false,
                adapter: adapter(*slot).map(Adapter),
            }));
        }
        passes.divide(&batch);
        assert_eq!(passes.len(), passes.iter().count());
        let mut seen: Vec<usize> = passes.iter().flatten().copied().collect();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..batch.len()), "each token once");
        let slots = |pass: &[usize]| {
            let mut slots: Vec<(u32, usize)> = Vec::new();
            for index in pass {
                let slot = batch[*index].slot.0;
                match slots.last_mut().filter(|(last, _)| *last == slot) {
                    Some((_, tokens)) => *tokens += 1,
                    None => slots.push((slot, 1)),
                }
            }
            slots
        };
        passes.iter().map(slots).collect()
    }

    #[test]
    fn sequences_of_like_length_decode_in_one_pass() {
        let parts: Vec<_> = (0..32).map(|slot| (slot, 100 + slot, 1)).collect();
        assert_eq!(divide(&parts).len(), 1);
    }

    #[test]
    fn a_long_sequence_decodes_by_itself_where_that_is_cheaper() {
        assert_eq!(
            divide(&[(0, 100, 1), (1, 200, 1), (2, 200, 1), (3, 4_000, 1)]),
            [vec![(0, 1), (1, 1), (2, 1)], vec![(3, 1)]]
        );
        // Beside one short sequence the longer attention costs less than a pass.
        assert_eq!(divide(&[(0, 100, 1), (1, 3_000, 1)]).len(), 1);
    }

    #[test]
    fn a_long_sequence_in_the_middle_needs_a_better_reason() {
        let between = |cells| {
            let mut parts: Vec<_> = (0..9).map(|slot| (slot, 100, 1)).collect();
            parts[4].1 = cells;
            divide(&parts).len()
        };
        // Two more passes, 8000 cells, against 8 times what it is longer.
        assert_eq!(between(1_000), 1);
        assert_eq!(between(2_000), 3);
    }

    #[test]
    fn prompts_are_computed_apart_from_decodes() {
        assert_eq!(
            divide(&[(0, 100, 1), (1, 100, 1), (2, 512, 64)]),
            [vec![(0, 1), (1, 1)], vec![(2, 64)]]
        );
    }

    #[test]
    fn prompts_of_one_length_are_computed_together() {
        assert_eq!(
            divide(&[(0, 0, 64), (1, 0, 64), (2, 0, 30)]),
            [vec![(0, 64), (1, 64)], vec![(2, 30)]]
        );
    }

    #[test]
    fn a_prompt_between_decodes_joins_them_with_a_token() {
        assert_eq!(
            divide(&[(0, 100, 1), (1, 0, 64), (2, 100, 1)]),
            [vec![(0, 1), (1, 1), (2, 1)], vec![(1, 63)]]
        );
    }

    #[test]
    fn gaps_between_slots_are_kept() {
        assert_eq!(divide(&[(0, 9, 1), (2, 9, 1), (3, 9, 1)]).len(), 2);
    }

    #[test]
    fn each_adapter_has_passes_of_its_own_one_after_the_other() {
        let parts = [(0, 9, 1), (1, 9, 1), (2, 9, 1), (3, 9, 1), (4, 9, 2)];
        let adapter = |slot| [None, Some(1), None, Some(0), Some(0)][slot as usize];
        assert_eq!(
            divide_with(Passes::new(None), &parts, adapter),
            [vec![(0, 1), (2, 1)], vec![(3, 1), (4, 2)], vec![(1, 1)]]
        );
        assert_eq!(
            divide_with(Passes::new(Some(4_000)), &parts, adapter),
            [
                vec![(0, 1)],
                vec![(2, 1)],
                vec![(3, 1)],
                vec![(4, 2)],
                vec![(1, 1)]
            ]
        );
        assert_eq!(divide_with(Passes::new(None), &parts, |_| None).len(), 1);
    }

    #[test]
    fn an_empty_batch_has_no_pass() {
        assert!(divide(&[]).is_empty());
    }
}
