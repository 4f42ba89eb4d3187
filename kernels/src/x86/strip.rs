//! Operands of one call of a kernel, for all instruction sets: expanded weights, and a strip of
//! activations.

use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

use super::expand::Shape;
use super::tiles::Tiles;
use crate::data::panel::{BLOCK, ROWS};

/// Number of weights of a record.
const WEIGHTS: usize = ROWS * BLOCK;

/// A block of columns of a panel, expanded.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct Record<W = u8> {
    /// Bytes: in the order of the panel, signed, or with a number added. Words of 16 bits: signed,
    /// the first and the third of four columns of every row, then the second and the fourth.
    pub(crate) weights: [W; WEIGHTS],
    /// The scales of the rows.
    pub(crate) scales: [f32; ROWS],
    /// The minima of the rows or of the first half of the columns, or the scales of the second half.
    /// Of words: what sums start from.
    pub(crate) others: [f32; ROWS],
    /// The minima of the second half of the columns.
    pub(crate) second_minima: [f32; ROWS],
}

impl<W: Copy + Default> Record<W> {
    pub(crate) fn zero() -> Self {
        Self {
            weights: [W::default(); WEIGHTS],
            scales: [0.0; ROWS],
            others: [0.0; ROWS],
            second_minima: [0.0; ROWS],
        }
    }
}

/// Activations that are multiplied by some records.
#[derive(Clone, Copy)]
pub(crate) struct Strip<'a, T, W = u8> {
    pub(crate) records: &'a [Record<W>],
    pub(crate) shape: Shape,
    /// The first block is the one that belongs to the first record.
    pub(crate) tiles: Tiles<T>,
    /// Activations of a tile; the last may have fewer.
    pub(crate) height: usize,
    pub(crate) tokens: usize,
    /// Address of the result of the panel's first row and the first activation.
    pub(crate) out: *mut f32,
    /// Elements from one activation's results to the next's.
    pub(crate) stride: usize,
    /// True if results are added to the present ones.
    pub(crate) resume: bool,
    /// Weights that are multiplied soon, to be prefetched meanwhile.
    pub(crate) next: Lines,
}

/// Cache lines that are prefetched a few at a time.
#[derive(Clone, Copy)]
pub(crate) struct Lines {
    pub(crate) first: *const u8,
    pub(crate) count: usize,
    pub(crate) at_a_time: usize,
}

impl Lines {
    /// Prefetches those of one step.
    #[inline]
    pub(crate) fn fetch(&self, step: usize) {
        self.from(step).next();
    }

    /// Returns the prefetches from a step on.
    #[inline]
    pub(crate) fn from(&self, step: usize) -> Fetches {
        let line = |line: usize| self.first.wrapping_add(64 * line.min(self.count));
        Fetches {
            next: line(step * self.at_a_time),
            end: line(self.count),
            at_a_time: self.at_a_time,
        }
    }
}

/// Cache lines that are still to be prefetched.
pub(crate) struct Fetches {
    next: *const u8,
    end: *const u8,
    at_a_time: usize,
}

impl Fetches {
    /// Prefetches those of one step.
    #[inline]
    pub(crate) fn next(&mut self) {
        for _ in 0..self.at_a_time {
            if self.next == self.end {
                break;
            }
            // SAFETY: every CPU of this kind has the instruction, and it may be given any address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(self.next.cast()) };
            self.next = self.next.wrapping_add(64);
        }
    }
}
