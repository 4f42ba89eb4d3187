//! Converts keys and values of every type to 32-bit elements.

use std::arch::x86_64::*;

use super::super::elements::vector;
use super::super::{CellSource, with_numbers};
use super::LANES;
use crate::data::attention::Numbers;
use crate::x86::vector::Avx512;

/// Cells that are read together.
const AT_ONCE: usize = 4;
impl CellSource {
    /// Returns the rows that are `further` cells behind these, if cells follow each other.
    pub(super) fn ahead(&self, cells: &[u16], further: usize) -> Ahead {
        Ahead {
            next: self.at(cells[0]).wrapping_add(further * self.stride),
            stride: self.stride,
            bytes: self.numbers.bytes(self.size),
            left: cells.len(),
            credit: 0,
        }
    }

    /// Writes the elements of cells, each padded with zeros to whole vectors. Those of `MIXED`
    /// cells are interleaved, as [`mixed_places`] says.
    ///
    /// # Safety
    /// Cells must have so many elements in whole blocks, and `out` room for whole vectors of a
    /// multiple of four cells.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn widen<const MIXED: usize>(&self, cells: &[u16], out: *mut f32) {
        // SAFETY: as the caller promises.
        unsafe {
            with_numbers!(
                self.numbers,
                NUMBERS,
                self.each::<NUMBERS, MIXED>(cells, out)
            );
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn each<const NUMBERS: u8, const MIXED: usize>(&self, cells: &[u16], out: *mut f32) {
        let stride = super::padded(self.size);
        let whole = self.size / LANES * LANES;
        for (index, group) in cells.chunks(AT_ONCE).enumerate() {
            let last = group[group.len() - 1];
            let rows: [*const u8; AT_ONCE] =
                std::array::from_fn(|cell| self.at(group.get(cell).copied().unwrap_or(last)));
            let out = out.wrapping_add(index * AT_ONCE * stride);
            // SAFETY: as the caller promises.
            unsafe {
                for first in (0..whole).step_by(LANES) {
                    together::<NUMBERS, MIXED>(&rows, first, LANES, out, stride);
                }
                if whole < self.size {
                    let left = self.size - whole;
                    together::<NUMBERS, MIXED>(&rows, whole, left, out, stride);
                }
            }
        }
    }
}

/// Keys or values to prefetch while others are computed, a few at a time: a burst of prefetches
/// would stall everything else.
pub(super) struct Ahead {
    next: *const u8,
    stride: usize,
    bytes: usize,
    left: usize,
    credit: usize,
}

impl Ahead {
    /// Prefetches the next lines: `share` of the keys or values every `of` calls. They need not
    /// exist.
    #[inline]
    pub(super) fn fetch(&mut self, share: usize, of: usize) {
        self.credit += share;
        while self.credit >= of && self.left > 0 {
            for line in (0..self.bytes).step_by(64) {
                // SAFETY: a prefetch reads nothing, whatever the address.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(self.next.wrapping_add(line).cast()) };
            }
            self.next = self.next.wrapping_add(self.stride);
            self.credit -= of;
            self.left -= 1;
        }
    }
}

/// Returns the places of sixteen elements of a key that is interleaved with others.
pub(super) const fn mixed_places<const MIXED: usize>() -> [usize; LANES] {
    let mut places = [0; LANES];
    let mut number = 0;
    while number < LANES {
        // Each quarter of a vector has some elements of all keys; vectors follow each other.
        let (quarter, rest) = (number / 4, number % 4);
        let per_quarter = 4 / MIXED;
        places[number] = rest / per_quarter * LANES + quarter * 4 + rest % per_quarter * MIXED;
        number += 1;
    }
    places
}

/// Writes sixteen elements of some rows, `MIXED` of them interleaved.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn together<const NUMBERS: u8, const MIXED: usize>(
    rows: &[*const u8; AT_ONCE],
    first: usize,
    left: usize,
    out: *mut f32,
    stride: usize,
) {
    // SAFETY: as the caller promises.
    let [a, b, c, d] = rows.map(|row| unsafe { vector::<Avx512, NUMBERS>(row, first, left) });
    let zip = |a: __m512, b: __m512| [_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)];
    let zip_pairs = |a: __m512, b: __m512| {
        let [a, b] = [_mm512_castps_pd(a), _mm512_castps_pd(b)];
        [_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b)].map(|pair| _mm512_castpd_ps(pair))
    };
    let ([a, b], [c, d]) = if MIXED == 1 {
        ([a, b], [c, d])
    } else {
        (zip(a, b), zip(c, d))
    };
    let ([a, b], [c, d]) = if MIXED < 4 {
        ([a, b], [c, d])
    } else {
        (zip_pairs(a, c), zip_pairs(b, d))
    };
    for (row, numbers) in [a, b, c, d].into_iter().enumerate() {
        let at = row / MIXED * MIXED * stride + first * MIXED + row % MIXED * LANES;
        // SAFETY: there is room for whole vectors.
        unsafe { _mm512_storeu_ps(out.add(at), numbers) };
    }
}
