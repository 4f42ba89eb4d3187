//! Attention with AVX2.
//!
//! The scores of a row are computed for some cells at once: their keys are turned, so that a vector
//! has one element of eight of them. The sums of values are computed for some elements at once, as
//! they are in memory. So both use whole vectors, however few rows there are.

mod exp;
mod products;
mod rows;
mod softmax;

use std::cell::RefCell;
use std::f32::consts::LOG2_E;
use std::ops::Range;

use super::seen::{Cells, SeenCells};
use super::{TokenRun, chunks, mask};
use crate::data::attention::{Attention, BLOCK};
use crate::x86::vector::{Avx2, Vector};
use products::ROWS;
use softmax::{Factors, SoftmaxState};

/// Number of elements of a vector.
const LANES: usize = 8;
/// Cells whose keys are turned together.
const GROUP: usize = 16;
/// Cells whose values stay in L1.
const VALUES_AT_ONCE: usize = 32;

/// Memory that a thread uses again and again.
#[derive(Default)]
struct AttentionSpace {
    seen: Vec<SeenCells>,
    /// The cells of a block that some row sees.
    cells: Vec<u16>,
    /// The keys of a group of them by element, and the values of some, in 32-bit elements.
    keys: Vec<f32>,
    values: Vec<f32>,
    /// The mask of a token for them.
    mask: Vec<f32>,
    /// Rows that are computed together.
    parts: Vec<RowGroup>,
    /// By row: queries, the scores of a block, sums of all blocks and of one.
    queries: Vec<f32>,
    scores: Vec<f32>,
    sums: Vec<f32>,
    added: Vec<f32>,
    states: Vec<SoftmaxState>,
    factors: Vec<Factors>,
}

/// Some rows, and from which to which place in the list of cells they see any.
struct RowGroup {
    rows: Range<usize>,
    places: Range<usize>,
}

thread_local! {
    static SPACE: RefCell<AttentionSpace> = RefCell::default();
}

/// Computes the results of some tokens, for the heads that share one of a key.
///
/// # Safety
/// As for [`Attention::compute`]; the CPU must have the instructions.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn compute(
    attention: &Attention,
    kv_head: usize,
    stream: usize,
    mut tokens: Range<usize>,
) {
    SPACE.with_borrow_mut(|space| {
        let place = (kv_head, stream);
        // SAFETY: as the caller promises.
        unsafe {
            while let Some(run) = TokenRun::next::<Avx2>(attention, place, &mut tokens) {
                compute_run(&run, space);
            }
        }
    });
}

/// Computes a block of cells of a token by itself, for the heads that share one of a key.
///
/// # Safety
/// As for [`compute`]; `partials` must have room for [`Attention::partial`] for each block of the
/// token.
pub(crate) unsafe fn compute_block(
    attention: &Attention,
    place: (usize, usize, usize),
    block: usize,
    partials: *mut u8,
) {
    let run = TokenRun::for_token(attention, place);
    SPACE.with_borrow_mut(|space| {
        let size = attention.partial();
        // SAFETY: as the caller promises.
        unsafe {
            begin(&run, space, false);
            add(&run, space, block * BLOCK);
            let room = partials.cast::<f32>().add(block * size);
            let room = std::slice::from_raw_parts_mut(room, size);
            let (states, sums) = room.split_at_mut(size - space.sums.len());
            for (room, state) in states.chunks_exact_mut(2).zip(&space.states) {
                room.copy_from_slice(&[state.largest, state.total]);
            }
            sums.copy_from_slice(&space.sums);
        }
    });
}

/// Merges the blocks of a token and writes its results.
///
/// # Safety
/// As for [`compute_block`], which has computed all blocks.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn merge(
    attention: &Attention,
    place: (usize, usize, usize),
    partials: *const u8,
) {
    let run = TokenRun::for_token(attention, place);
    SPACE.with_borrow_mut(|space| {
        empty(&run, space, true);
        let size = attention.partial();
        for block in 0..attention.cells.div_ceil(BLOCK) {
            // SAFETY: the block was computed.
            let kept = unsafe {
                let first = partials.cast::<f32>().add(block * size);
                std::slice::from_raw_parts(first, size)
            };
            let (states, sums) = kept.split_at(size - space.sums.len());
            space.factors.clear();
            for (state, kept) in space.states.iter_mut().zip(states.chunks_exact(2)) {
                let [largest, total] = [kept[0], kept[1]];
                space
                    .factors
                    .push(state.add(SoftmaxState { largest, total }));
            }
            add_sums(&space.factors, sums, &mut space.sums);
        }
        // SAFETY: as the caller promises.
        unsafe { end(&run, space) };
    });
}

/// # Safety
/// As for [`compute`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn compute_run(run: &TokenRun<'_>, space: &mut AttentionSpace) {
    // SAFETY: as the caller promises.
    unsafe {
        begin(run, space, true);
        for first in (0..run.attention.cells).step_by(BLOCK) {
            add(run, space, first);
        }
        // A NaN may have reached rows that do not see it.
        if run.tokens.len() > 1 && !space.sums.iter().all(|sum| sum.is_finite()) {
            for token in run.tokens.clone() {
                let tokens = token..token + 1;
                let run = TokenRun {
                    tokens,
                    ..run.clone()
                };
                compute_run(&run, space);
            }
            return;
        }
        end(run, space);
    }
}

/// Brings queries into order and empties the sums.
#[target_feature(enable = "avx2")]
unsafe fn begin(run: &TokenRun<'_>, space: &mut AttentionSpace, sinks: bool) {
    let attention = run.attention;
    let (keys, factor) = (attention.key_size, attention.factor());
    let values = padded(attention.value_size);
    space.keys.resize(keys.next_multiple_of(LANES) * GROUP, 0.0);
    space.values.resize(VALUES_AT_ONCE * values, 0.0);
    space.mask.resize(BLOCK, 0.0);
    space.scores.resize(run.rows() * BLOCK, 0.0);
    space.queries.clear();
    for row in 0..run.rows() {
        // SAFETY: rows of queries have so many elements.
        let query = unsafe { std::slice::from_raw_parts(run.query(row), keys) };
        let scaled = query.iter().map(|element| element * factor);
        space.queries.extend(scaled);
    }
    empty(run, space, sinks);
}

fn empty(run: &TokenRun<'_>, space: &mut AttentionSpace, sinks: bool) {
    space.sums.clear();
    let values = padded(run.attention.value_size);
    space.sums.resize(run.rows() * values, 0.0);
    space.states.clear();
    let states = (0..run.rows()).map(|row| SoftmaxState::new(run.sink(row).filter(|_| sinks)));
    space.states.extend(states);
}

/// Adds the cells of a block, the first of which is `first`.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add(run: &TokenRun<'_>, space: &mut AttentionSpace, first: usize) {
    // SAFETY: as the caller promises.
    let any = unsafe { mask::block::<Avx2>(run, first, &mut space.seen) };
    any.list(&mut space.cells);
    if space.cells.is_empty() {
        return;
    }
    RowGroup::split_run(run, &space.seen, &any, &mut space.parts);
    // SAFETY: as the caller promises.
    unsafe {
        score(run, space, first);
        weigh(run, space, first, &any);
        sum(run, space, first);
    }
    add_sums(&space.factors, &space.added, &mut space.sums);
}

impl RowGroup {
    /// The rows of a run that are computed together.
    fn split_run(run: &TokenRun<'_>, seen: &[SeenCells], any: &Cells, parts: &mut Vec<Self>) {
        let group = run.attention.group();
        parts.clear();
        parts.extend(chunks(run.rows(), ROWS).map(|rows| {
            let tokens = rows.start / group..(rows.end - 1) / group + 1;
            let places = seen[tokens].iter().map(|seen| seen.any.places_in(any));
            let places = places.filter(|places| !places.is_empty());
            let places = places.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
            let places = places.unwrap_or(0..0);
            Self { rows, places }
        }));
    }

    /// Returns true if its rows see any of these places.
    fn sees(&self, places: &Range<usize>) -> bool {
        self.places.start < places.end && places.start < self.places.end
    }
}

/// The dot products of queries and keys.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn score(run: &TokenRun<'_>, space: &mut AttentionSpace, first: usize) {
    let size = run.attention.key_size;
    let keys = run.keys(first);
    for (index, cells) in space.cells.chunks(GROUP).enumerate() {
        let group = index * GROUP..(index + 1) * GROUP;
        // SAFETY: there is room for the keys of a group, and there are as many queries and scores.
        unsafe {
            keys.turn(cells, space.keys.as_mut_ptr());
            for part in space.parts.iter().filter(|part| part.sees(&group)) {
                let rows = &part.rows;
                let queries = space.queries.as_ptr().add(rows.start * size);
                let scores = space.scores.as_mut_ptr();
                let scores = scores.add(rows.start * BLOCK + group.start);
                products::score(rows.len(), size, queries, space.keys.as_ptr(), scores);
            }
        }
    }
}

/// Replaces scores by weights, and adds the states of rows.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn weigh(run: &TokenRun<'_>, space: &mut AttentionSpace, first: usize, any: &Cells) {
    let attention = run.attention;
    let count = space.cells.len();
    let whole = count.next_multiple_of(LANES);
    space.factors.clear();
    for (index, token) in run.tokens.clone().enumerate() {
        let seen = &space.seen[index];
        let mask = attention.mask.as_ref().filter(|_| seen.plain != *any);
        if let Some(mask) = mask {
            let row = mask.at([token, 0, run.stream]).cast::<u16>();
            // SAFETY: the mask has an element for each cell.
            unsafe { widen(row.add(first), &space.cells, &mut space.mask[..whole]) };
        }
        let group = attention.group();
        for row in index * group..(index + 1) * group {
            let scores = &mut space.scores[row * BLOCK..][..whole];
            if attention.cap != 0.0 {
                softmax::cap_scores(attention.cap, scores);
            }
            if mask.is_some() {
                let (_, head) = run.row(row);
                let slope = attention.slope(head) * LOG2_E;
                softmax::hide(&space.mask[..whole], slope, scores);
            }
            scores[count..].fill(f32::NEG_INFINITY);
            let here = softmax::weigh(scores);
            space.factors.push(space.states[row].add(here));
        }
    }
}

/// Writes what a row of the mask has for each of some cells. `out` has room for whole vectors.
///
/// # Safety
/// The row must have an element for each cell.
#[target_feature(enable = "avx2,f16c")]
unsafe fn widen(row: *const u16, cells: &[u16], out: &mut [f32]) {
    for (cells, out) in cells.chunks(LANES).zip(out.chunks_exact_mut(LANES)) {
        let mut halves = [0; LANES];
        for (half, cell) in halves.iter_mut().zip(cells) {
            // SAFETY: as the caller promises.
            *half = unsafe { row.add(usize::from(*cell)).read_unaligned() };
        }
        // SAFETY: eight elements each.
        unsafe {
            let floats = Avx2::half_floats(Avx2::load_words(halves.as_ptr()));
            Avx2::store_floats(out.as_mut_ptr(), floats);
        }
    }
}

/// The sums of values by their weights.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn sum(run: &TokenRun<'_>, space: &mut AttentionSpace, first: usize) {
    let values = run.values(first);
    let stride = padded(values.size);
    space.added.clear();
    space.added.resize(run.rows() * stride, 0.0);
    for (index, cells) in space.cells.chunks(VALUES_AT_ONCE).enumerate() {
        let start = index * VALUES_AT_ONCE;
        let near = start..start + cells.len();
        // SAFETY: there is room for so many values, and there are as many weights and sums.
        unsafe {
            values.widen_each(cells, space.values.as_mut_ptr());
            for part in space.parts.iter().filter(|part| part.sees(&near)) {
                let rows = &part.rows;
                let weights = space.scores.as_ptr().add(rows.start * BLOCK + start);
                let added = space.added.as_mut_ptr().add(rows.start * stride);
                let values = space.values.as_ptr();
                products::sum(rows.len(), stride, cells.len(), values, weights, added);
            }
        }
    }
}

/// Adds the sums of a block, with factors of the sums before and of these.
#[target_feature(enable = "avx2,fma")]
fn add_sums(factors: &[Factors], added: &[f32], sums: &mut [f32]) {
    let stride = sums.len() / factors.len();
    let rows = sums
        .chunks_exact_mut(stride)
        .zip(added.chunks_exact(stride));
    for ((sums, added), factors) in rows.zip(factors) {
        for (sum, added) in sums.iter_mut().zip(added) {
            *sum = added.mul_add(factors.here, *sum * factors.before);
        }
    }
}

/// Divides the sums by the weights and writes the results.
#[target_feature(enable = "avx2")]
unsafe fn end(run: &TokenRun<'_>, space: &AttentionSpace) {
    let size = run.attention.value_size;
    let rows = space.sums.chunks_exact(padded(size)).zip(&space.states);
    for (row, (sums, state)) in rows.enumerate() {
        let (out, share) = (run.out(row), state.share());
        for (index, sum) in sums[..size].iter().enumerate() {
            // SAFETY: results have their places, which are the caller's alone.
            unsafe { out.add(index).write_unaligned(sum * share) };
        }
    }
}

/// Rounds a number of elements up to whole pairs of vectors.
const fn padded(numbers: usize) -> usize {
    numbers.next_multiple_of(2 * LANES)
}
