//! Attention with AVX-512.
//!
//! Many rows (a row is the query of a head) are computed in tiles, in which a vector holds one
//! element of each of sixteen rows, and keys and values are read once for all of them. Few rows are
//! computed by `decode`. Every row's chains of additions are the same in both.

mod decode;
mod exp;
mod rows;
mod state;
mod tile;
mod value_block;

use std::cell::RefCell;
use std::ops::Range;

use super::seen::{SeenCells, common};
use super::{TokenRun, mask};
use crate::data::attention::{Attention, BLOCK};
use crate::x86::vector::Avx512;
use decode::Narrow;
use state::{Lanes, SoftmaxState};
use tile::{Tile, WIDE};

pub(crate) use decode::{compute_block, merge};

/// Number of rows of a vector.
const LANES: usize = 16;

/// Memory that a thread uses again and again.
#[derive(Default)]
struct AttentionSpace {
    seen: Vec<SeenCells>,
    /// The cells of a block that some row sees.
    cells: Vec<u16>,
    /// Their keys and values, in 32-bit elements.
    keys: Vec<Lanes>,
    values: Vec<Lanes>,
    /// Queries and sums of tiles, or of few rows.
    queries: Vec<Lanes>,
    sums: Vec<Lanes>,
    states: Vec<SoftmaxState>,
    /// Scores of sixteen rows for each cell.
    scores: Vec<Lanes>,
    /// Sums of a block of cells.
    added: Vec<Lanes>,
}

thread_local! {
    static SPACE: RefCell<AttentionSpace> = RefCell::default();
}

/// Computes the results of some tokens, for the heads that share one of a key.
///
/// # Safety
/// As for [`Attention::compute`]; the CPU must have the instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
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
            while let Some(run) = TokenRun::next::<Avx512>(attention, place, &mut tokens) {
                run.compute(space);
            }
        }
    });
}

impl<'a> TokenRun<'a> {
    /// Some rows, as many as a tile has.
    fn tiles(&self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let rows = self.rows();
        (0..rows)
            .step_by(WIDE * LANES)
            .map(move |first| first..(first + WIDE * LANES).min(rows))
    }

    /// # Safety
    /// As for [`compute`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn compute(&self, space: &mut AttentionSpace) {
        let blocks = (0..self.attention.cells).step_by(BLOCK);
        // SAFETY: as the caller promises.
        unsafe {
            if self.rows() <= LANES {
                let narrow = Narrow::new(self);
                narrow.begin(space, true);
                for first in blocks {
                    narrow.add(space, first);
                }
                if self.mixed(space) {
                    return self.separately(space);
                }
                narrow.end(space);
            } else {
                self.begin(space);
                for first in blocks {
                    self.block(space, first);
                }
                if self.mixed(space) {
                    return self.separately(space);
                }
                self.end(space);
            }
        }
    }

    /// Returns true if a NaN may have reached rows that do not see it.
    #[target_feature(enable = "avx512f")]
    fn mixed(&self, space: &AttentionSpace) -> bool {
        self.tokens.len() > 1 && !space.sums.iter().all(|sums| sums.are_finite())
    }

    /// Computes one token after the other, so that each reads only what it sees.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn separately(&self, space: &mut AttentionSpace) {
        for token in self.tokens.clone() {
            let tokens = token..token + 1;
            // SAFETY: as the caller promises.
            unsafe { TokenRun { tokens, ..*self }.compute(space) };
        }
    }

    /// Lists the cells of a block that tokens of the run see.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn look(&self, space: &mut AttentionSpace, first: usize) {
        // SAFETY: as the caller promises.
        let any = unsafe { mask::block::<Avx512>(self, first, &mut space.seen) };
        any.list(&mut space.cells);
    }

    /// Brings the queries of tiles into order and empties the sums.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn begin(&self, space: &mut AttentionSpace) {
        let attention = self.attention;
        let (keys, values) = (attention.key_size, padded(attention.value_size));
        let tiles = self.rows().div_ceil(LANES * WIDE);
        space.queries.resize(tiles * WIDE * keys, Lanes::ZERO);
        space.sums.clear();
        space.sums.resize(tiles * WIDE * values, Lanes::ZERO);
        space.keys.resize(BLOCK * padded(keys) / LANES, Lanes::ZERO);
        space.values.resize(BLOCK * values / LANES, Lanes::ZERO);
        space.scores.resize(BLOCK * WIDE, Lanes::ZERO);
        space.added.resize(WIDE * values, Lanes::ZERO);
        space.states.clear();
        for (index, rows) in self.tiles().enumerate() {
            for vector in 0..WIDE {
                let rows = rows.start + vector * LANES..rows.end;
                space
                    .states
                    .push(SoftmaxState::new(self, rows.clone(), true));
                let sources = row_pointers(rows, |row| self.query(row));
                let queries = &mut space.queries[index * WIDE * keys..][..WIDE * keys];
                // SAFETY: rows of queries have so many elements, and there is a vector for each.
                unsafe {
                    let room = queries.as_mut_ptr().add(vector);
                    state::gather(&sources, keys, attention.factor(), room, WIDE);
                }
            }
        }
    }

    /// Adds the cells of a block, the first of which is `first`, to all tiles.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn block(&self, space: &mut AttentionSpace, first: usize) {
        let attention = self.attention;
        let (keys, values) = (attention.key_size, padded(attention.value_size));
        // SAFETY: as the caller promises.
        unsafe { self.look(space, first) };
        if space.cells.is_empty() {
            return;
        }
        // SAFETY: there is room for the keys and values of a block.
        unsafe {
            let room = space.keys.as_mut_ptr().cast();
            self.keys(first).widen::<1>(&space.cells, room);
            let room = space.values.as_mut_ptr().cast();
            self.values(first).widen::<1>(&space.cells, room);
        }
        for (index, rows) in self.tiles().enumerate() {
            let tile = Tile {
                run: self,
                rows,
                first,
                cells: &space.cells,
                seen: &space.seen,
                keys: space.keys.as_ptr().cast(),
                values: space.values.as_ptr().cast(),
                queries: &space.queries[index * WIDE * keys..],
            };
            let sums = &mut space.sums[index * WIDE * values..][..WIDE * values];
            let states = &mut space.states[index * WIDE..][..WIDE];
            // SAFETY: as the caller promises.
            unsafe { tile.add(&mut space.scores, &mut space.added, states, sums) };
        }
    }

    /// Writes the results of tiles.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn end(&self, space: &mut AttentionSpace) {
        let (size, values) = (self.attention.value_size, padded(self.attention.value_size));
        for (index, rows) in self.tiles().enumerate() {
            for vector in 0..WIDE {
                let sums = &space.sums[index * WIDE * values..][..WIDE * values];
                let rows = rows.start + vector * LANES..rows.end;
                let places = row_pointers(rows, |row| self.out(row).cast_const());
                let state = &space.states[index * WIDE + vector];
                // SAFETY: results have their places, which are the caller's alone.
                unsafe {
                    let sums = sums.as_ptr().add(vector);
                    state::scatter(sums, WIDE, &state.shares(), size, &places);
                }
            }
        }
    }

    /// Adds what the mask has for a cell to its scores, for those rows in whose mask it has
    /// something; `at` says where a row has its score.
    fn hide(
        &self,
        rows: Range<usize>,
        cell: usize,
        scores: &mut [Lanes],
        at: impl Fn(usize) -> usize,
    ) {
        let attention = self.attention;
        let Some(mask) = &attention.mask else { return };
        for (place, row) in rows.enumerate() {
            let (token, head) = self.row(row);
            let numbers = mask.at([token, 0, self.stream]).cast::<u16>();
            // SAFETY: the mask has an element for each cell.
            let number = crate::data::half::to_f32(unsafe { numbers.add(cell).read_unaligned() });
            let score = &mut scores[at(place) / LANES].0[at(place) % LANES];
            *score = if number == f32::NEG_INFINITY {
                number
            } else {
                let slope = attention.slope(head) * std::f32::consts::LOG2_E;
                number.mul_add(slope, *score)
            };
        }
    }
}

/// Something for each of the first sixteen rows; null where there is no row.
fn row_pointers(rows: Range<usize>, pointer: impl Fn(usize) -> *const f32) -> [*const f32; LANES] {
    std::array::from_fn(|lane| {
        let row = rows.start + lane;
        if row < rows.end {
            pointer(row)
        } else {
            std::ptr::null()
        }
    })
}

/// Rounds a number of elements up to whole vectors.
const fn padded(numbers: usize) -> usize {
    numbers.next_multiple_of(LANES)
}
