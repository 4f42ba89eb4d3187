//! The division of a batch into passes.

use std::ops::Range;

use crate::backend::interface::{Adapters, BatchToken, Slot};

/// Granularity of the cells of a pass: llama.cpp rounds up to a multiple of this.
const CELL_GRAIN: u32 = 256;

/// Models whose sequences go back to states that are kept of their last tokens.
///
/// llama.cpp moves the states of sequences next to each other to compute them in one pass. It does
/// not move the kept states of earlier tokens. So nothing may be moved between a sequence's drafts
/// and its going back. A pass of a single sequence moves nothing.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend::llama) struct GoesBack {
    /// True if a pass may have gaps between its slots.
    pub(in crate::backend::llama) unified: bool,
    /// Number of tokens that llama.cpp computes at once.
    pub(in crate::backend::llama) ubatch: usize,
}

/// The division of a batch. Kept between steps to reuse its memory.
#[derive(Default)]
pub(super) struct Passes {
    /// Cost of a pass, in cells; `None` if the lengths of sequences make no difference.
    pass_cost: Option<u64>,
    goes_back: Option<GoesBack>,
    /// Indices into the batch, pass by pass.
    order: Vec<usize>,
    ranges: Vec<Pass>,
    parts: Vec<SequencePart>,
    /// The parts with drafts of a model that goes back; the others are in `parts`.
    drafting: Vec<SequencePart>,
    /// For each number of first parts: the least cost, and the start of the last group in the
    /// division with that cost.
    best: Vec<(u64, usize)>,
    groups: Vec<Range<usize>>,
}

/// A range of `order`, computed with the same adapters.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Pass {
    adapters: Adapters,
    begin: usize,
    end: usize,
}

/// The tokens of one sequence in the batch.
#[derive(Clone, Copy, Debug, Default)]
struct SequencePart {
    slot: Slot,
    adapters: Adapters,
    /// Index of its first token.
    first: usize,
    tokens: usize,
    /// Number of its tokens that ask for logits. Drafts do, because they are verified.
    asking: usize,
    /// Cells of the sequence after the batch, rounded up.
    cells: u64,
}

/// Neighboring parts that begin with a common pass. Tokens beyond the shortest part take a pass for
/// each part.
#[derive(Default)]
struct PassGroup {
    parts: u64,
    /// Tokens of the shortest part; `shortest` counts the parts of this length.
    tokens: u64,
    shortest: u64,
    /// Cells of the longest part.
    cells: u64,
    /// Sums over the parts: cells, and cells multiplied by tokens.
    sum: u64,
    sum_by_token: u64,
}

impl PassGroup {
    fn add(&mut self, part: &SequencePart) {
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
    pub(super) fn new(pass_cost: Option<u64>, goes_back: Option<GoesBack>) -> Self {
        Self {
            pass_cost,
            goes_back,
            ..Self::default()
        }
    }

    /// Divides a batch whose sequences come one after the other, in the order of slots.
    pub(super) fn divide(&mut self, batch: &[BatchToken]) {
        self.order.clear();
        self.ranges.clear();
        self.find_parts(batch);
        self.drafting.clear();
        if self.goes_back.is_some() {
            let drafts = |part: &mut SequencePart| part.asking > 1;
            self.drafting.extend(self.parts.extract_if(.., drafts));
        }
        match self.pass_cost {
            Some(pass_cost) => self.divide_by_cost(pass_cost),
            None => self.divide_by_adapters(),
        }
        // Passes are sorted by adapters, because a change of adapters costs a little.
        self.ranges.sort_unstable();
        if let Some(goes_back) = self.goes_back {
            self.add_drafting(goes_back);
        }
    }

    /// The passes, as indices into the batch. Those of a sequence are in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[usize]> {
        let passes = self.ranges.iter();
        passes.map(|pass| &self.order[pass.begin..pass.end])
    }

    /// Number of passes of the last batch.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    fn find_parts(&mut self, batch: &[BatchToken]) {
        self.parts.clear();
        for (index, token) in batch.iter().enumerate() {
            if self.parts.last().is_none_or(|part| part.slot != token.slot) {
                self.parts.push(SequencePart {
                    slot: token.slot,
                    adapters: token.adapters,
                    first: index,
                    ..SequencePart::default()
                });
            }
            let part = self.parts.last_mut().expect("it was added");
            part.tokens += 1;
            part.asking += usize::from(token.logits);
            part.cells = (token.position + 1).next_multiple_of(CELL_GRAIN).into();
        }
    }

    /// Adds a pass with some tokens of parts that have the same adapters.
    fn add_pass(&mut self, parts: &[SequencePart], tokens: impl Fn(&SequencePart) -> Range<usize>) {
        let begin = self.order.len();
        self.order.extend(parts.iter().flat_map(tokens));
        self.ranges.push(Pass {
            adapters: parts[0].adapters,
            begin,
            end: self.order.len(),
        });
    }

    fn divide_by_adapters(&mut self) {
        let mut parts = std::mem::take(&mut self.parts);
        parts.sort_unstable_by_key(|part| (part.adapters, part.first));
        for parts in parts.chunk_by(|one, next| one.adapters == next.adapters) {
            self.add_pass(parts, SequencePart::all);
        }
        self.parts = parts;
    }

    fn divide_by_cost(&mut self, pass_cost: u64) {
        let parts = std::mem::take(&mut self.parts);
        let neighbors = |one: &SequencePart, next: &SequencePart| {
            one.is_before(next) && one.adapters == next.adapters
        };
        for parts in parts.chunk_by(neighbors) {
            self.divide_neighbors(parts, pass_cost);
        }
        self.parts = parts;
    }

    /// Finds the cheapest division of neighboring parts into groups.
    fn divide_neighbors(&mut self, parts: &[SequencePart], pass_cost: u64) {
        self.best.clear();
        self.best.push((0, 0));
        for end in 1..=parts.len() {
            let mut group = PassGroup::default();
            let mut least = (u64::MAX, 0);
            for begin in (0..end).rev() {
                group.add(&parts[begin]);
                let cost = self.best[begin].0 + group.cost(pass_cost);
                if cost < least.0 {
                    least = (cost, begin);
                }
            }
            self.best.push(least);
        }
        self.groups.clear();
        let mut end = parts.len();
        while end > 0 {
            let begin = self.best[end].1;
            self.groups.push(begin..end);
            end = begin;
        }
        while let Some(group) = self.groups.pop() {
            self.add_group(&parts[group]);
        }
    }

    fn add_group(&mut self, parts: &[SequencePart]) {
        let together = parts.iter().map(|part| part.tokens).min().unwrap_or(0);
        self.add_pass(parts, |part| part.first..part.first + together);
        for part in parts.iter().filter(|part| part.tokens > together) {
            let beyond = |part: &SequencePart| part.first + together..part.first + part.tokens;
            self.add_pass(std::slice::from_ref(part), beyond);
        }
    }

    /// Adds passes for sequences that may go back, after all others. Sequences with the same number
    /// of tokens share a pass where possible; each of the rest gets its own.
    fn add_drafting(&mut self, goes_back: GoesBack) {
        let mut drafting = std::mem::take(&mut self.drafting);
        drafting.sort_unstable_by_key(|part| (part.adapters, part.tokens, part.slot));
        let alike = |one: &SequencePart, next: &SequencePart| {
            let equal = one.adapters == next.adapters && one.tokens == next.tokens;
            equal && (goes_back.unified || one.is_before(next))
        };
        if let Some(most) = drafting.chunk_by(alike).max_by_key(|parts| parts.len()) {
            let at_once = goes_back.ubatch / most[0].tokens;
            let together = &most[..at_once.clamp(1, most.len())];
            self.add_pass(together, SequencePart::all);
            for part in drafting.chunks(1) {
                if !together.iter().any(|other| other.slot == part[0].slot) {
                    self.add_pass(part, SequencePart::all);
                }
            }
        }
        self.drafting = drafting;
    }
}

impl SequencePart {
    fn all(&self) -> Range<usize> {
        self.first..self.first + self.tokens
    }

    /// Returns true if `next` has the slot after this one's.
    fn is_before(&self, next: &Self) -> bool {
        self.slot.0 + 1 == next.slot.0
    }
}
