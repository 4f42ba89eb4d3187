//! Converts keys and values of every type to 32-bit elements.

use std::arch::x86_64::*;

use super::super::elements::vector;
use super::super::{CellSource, with_numbers};
use super::{GROUP, LANES, padded};
use crate::data::attention::Numbers;
use crate::x86::vector::Avx2;

/// Distance in cells at which keys and values are prefetched.
const AHEAD: usize = 32;

impl CellSource {
    /// Writes the elements of up to [`GROUP`] cells: for each element, that of every cell. Behind
    /// the last cell is anything that is in its place already, or the last cell again.
    ///
    /// # Safety
    /// Cells must have so many elements in whole blocks, and `out` room for [`GROUP`] times as
    /// many, in whole vectors.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn turn(&self, cells: &[u16], out: *mut f32) {
        // SAFETY: as the caller promises.
        unsafe {
            with_numbers!(self.numbers, NUMBERS, self.turn_each::<NUMBERS>(cells, out));
        }
    }

    /// Writes the elements of cells, each padded with zeros to [`padded`].
    ///
    /// # Safety
    /// Cells must have so many elements in whole blocks, and `out` room for those of each.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn widen_each(&self, cells: &[u16], out: *mut f32) {
        // SAFETY: as the caller promises.
        unsafe {
            with_numbers!(self.numbers, NUMBERS, self.copy_each::<NUMBERS>(cells, out));
        }
    }

    /// Fetches what comes [`AHEAD`] cells behind a row, if cells follow each other.
    #[inline]
    fn prefetch(&self, row: *const u8) {
        let next = row.wrapping_add(AHEAD * self.stride);
        for line in (0..self.numbers.bytes(self.size)).step_by(64) {
            // SAFETY: a prefetch reads nothing, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(line).cast()) };
        }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn turn_each<const NUMBERS: u8>(&self, cells: &[u16], out: *mut f32) {
        for (eighth, cells) in cells.chunks(LANES).enumerate() {
            let last = cells[cells.len() - 1];
            let rows: [*const u8; LANES] =
                std::array::from_fn(|cell| self.at(cells.get(cell).copied().unwrap_or(last)));
            for row in rows {
                self.prefetch(row);
            }
            for first in (0..self.size).step_by(LANES) {
                let left = (self.size - first).min(LANES);
                // SAFETY: as the caller promises.
                let square = rows.map(|row| unsafe { vector::<Avx2, NUMBERS>(row, first, left) });
                for (index, elements) in transpose(&square).into_iter().enumerate() {
                    // SAFETY: there is room for whole vectors.
                    unsafe {
                        let place = out.add((first + index) * GROUP + eighth * LANES);
                        _mm256_storeu_ps(place, elements);
                    }
                }
            }
        }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn copy_each<const NUMBERS: u8>(&self, cells: &[u16], out: *mut f32) {
        let stride = padded(self.size);
        for (index, cell) in cells.iter().enumerate() {
            let out = out.wrapping_add(index * stride);
            let row = self.at(*cell);
            self.prefetch(row);
            for first in (0..stride).step_by(LANES) {
                let left = self.size.saturating_sub(first).min(LANES);
                // SAFETY: as the caller promises.
                unsafe {
                    let elements = if left > 0 {
                        vector::<Avx2, NUMBERS>(row, first, left)
                    } else {
                        _mm256_setzero_ps()
                    };
                    _mm256_storeu_ps(out.add(first), elements);
                }
            }
        }
    }
}

/// Transposes eight rows.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(rows: &[__m256; LANES]) -> [__m256; LANES] {
    // By fours of columns: from each pair of rows, two columns of each half in turn.
    let pairs: [[__m256d; 2]; LANES / 2] = std::array::from_fn(|pair| {
        let [one, other] = [rows[2 * pair], rows[2 * pair + 1]];
        let zipped = [
            _mm256_unpacklo_ps(one, other),
            _mm256_unpackhi_ps(one, other),
        ];
        zipped.map(|zipped| _mm256_castps_pd(zipped))
    });
    let mut columns = [_mm256_setzero_ps(); LANES];
    for half in 0..2 {
        let [first, second, third, fourth] = pairs.map(|pair| pair[half]);
        let fours = [
            (
                _mm256_unpacklo_pd(first, second),
                _mm256_unpacklo_pd(third, fourth),
            ),
            (
                _mm256_unpackhi_pd(first, second),
                _mm256_unpackhi_pd(third, fourth),
            ),
        ];
        for (index, (low, high)) in fours.into_iter().enumerate() {
            let [low, high] = [_mm256_castpd_ps(low), _mm256_castpd_ps(high)];
            columns[2 * half + index] = _mm256_permute2f128_ps::<0x20>(low, high);
            columns[2 * half + index + 4] = _mm256_permute2f128_ps::<0x31>(low, high);
        }
    }
    columns
}
