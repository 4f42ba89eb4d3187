//! Converts keys and values of every type to 32-bit elements.

use std::arch::x86_64::*;

use super::super::{BF16, F16, F32, NUMBERS_BLOCK as BLOCK, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Source};
use super::{GROUP, LANES, padded};
use crate::data::attention::Numbers;

/// How many cells ahead of their use keys and values are prefetched.
const AHEAD: usize = 32;

impl Source {
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
            match self.numbers {
                Numbers::F32 => self.turn_each::<F32>(cells, out),
                Numbers::F16 => self.turn_each::<F16>(cells, out),
                Numbers::Bf16 => self.turn_each::<BF16>(cells, out),
                Numbers::Q8_0 => self.turn_each::<Q8_0>(cells, out),
                Numbers::Q5_1 => self.turn_each::<Q5_1>(cells, out),
                Numbers::Q5_0 => self.turn_each::<Q5_0>(cells, out),
                Numbers::Q4_1 => self.turn_each::<Q4_1>(cells, out),
                Numbers::Q4_0 => self.turn_each::<Q4_0>(cells, out),
            }
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
            match self.numbers {
                Numbers::F32 => self.copy_each::<F32>(cells, out),
                Numbers::F16 => self.copy_each::<F16>(cells, out),
                Numbers::Bf16 => self.copy_each::<BF16>(cells, out),
                Numbers::Q8_0 => self.copy_each::<Q8_0>(cells, out),
                Numbers::Q5_1 => self.copy_each::<Q5_1>(cells, out),
                Numbers::Q5_0 => self.copy_each::<Q5_0>(cells, out),
                Numbers::Q4_1 => self.copy_each::<Q4_1>(cells, out),
                Numbers::Q4_0 => self.copy_each::<Q4_0>(cells, out),
            }
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
                let square = rows.map(|row| unsafe { vector::<NUMBERS>(row, first, left) });
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
                        vector::<NUMBERS>(row, first, left)
                    } else {
                        _mm256_setzero_ps()
                    };
                    _mm256_storeu_ps(out.add(first), elements);
                }
            }
        }
    }
}

/// Rows become columns.
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

/// Eight elements from the element `first` on, a multiple of eight; those behind the first `left`
/// are zero.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn vector<const NUMBERS: u8>(source: *const u8, first: usize, left: usize) -> __m256 {
    // SAFETY: what is absent is not read; blocks have four vectors each.
    unsafe {
        match NUMBERS {
            F32 => {
                let source = source.cast::<f32>().add(first);
                if left == LANES {
                    return _mm256_loadu_ps(source);
                }
                let mut elements = [0.0; LANES];
                source.copy_to_nonoverlapping(elements.as_mut_ptr(), left);
                _mm256_loadu_ps(elements.as_ptr())
            }
            F16 => _mm256_cvtph_ps(sixteen_bits(source, first, left)),
            BF16 => {
                let bits = _mm256_cvtepu16_epi32(sixteen_bits(source, first, left));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
            }
            Q8_0 => {
                let block = source.add(first / BLOCK * 34);
                let integers = _mm_loadl_epi64(block.add(2 + first % BLOCK).cast());
                let whole = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(integers));
                _mm256_mul_ps(whole, half(block))
            }
            Q5_1 => {
                let block = source.add(first / BLOCK * 24);
                let integers = five_bits(block.add(4), block.add(8), first);
                _mm256_fmadd_ps(integers, half(block), half(block.add(2)))
            }
            Q5_0 => {
                let block = source.add(first / BLOCK * 22);
                let integers = five_bits(block.add(2), block.add(6), first);
                _mm256_mul_ps(_mm256_sub_ps(integers, _mm256_set1_ps(16.0)), half(block))
            }
            Q4_1 => {
                let block = source.add(first / BLOCK * 20);
                let integers = _mm256_cvtepi32_ps(four_bits(block.add(4), first));
                _mm256_fmadd_ps(integers, half(block), half(block.add(2)))
            }
            _ => {
                let block = source.add(first / BLOCK * 18);
                let integers = _mm256_cvtepi32_ps(four_bits(block.add(2), first));
                _mm256_mul_ps(_mm256_sub_ps(integers, _mm256_set1_ps(8.0)), half(block))
            }
        }
    }
}

/// Eight elements of 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn sixteen_bits(source: *const u8, first: usize, left: usize) -> __m128i {
    // SAFETY: as the caller promises.
    unsafe {
        let source = source.cast::<u16>().add(first);
        if left == LANES {
            return _mm_loadu_si128(source.cast());
        }
        let mut elements = [0_u16; LANES];
        source.copy_to_nonoverlapping(elements.as_mut_ptr(), left);
        _mm_loadu_si128(elements.as_ptr().cast())
    }
}

/// A binary16 value.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn half(source: *const u8) -> __m256 {
    // SAFETY: as the caller promises.
    let bits = unsafe { source.cast::<i16>().read_unaligned() };
    _mm256_cvtph_ps(_mm_set1_epi16(bits))
}

/// Eight integers of a block: the lower bits of its bytes, or the upper ones.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn four_bits(bytes: *const u8, first: usize) -> __m256i {
    // SAFETY: as the caller promises.
    let bytes = unsafe { _mm_loadl_epi64(bytes.add(first % (BLOCK / 2)).cast()) };
    let bytes = _mm256_cvtepu8_epi32(bytes);
    if first % BLOCK < BLOCK / 2 {
        _mm256_and_si256(bytes, _mm256_set1_epi32(15))
    } else {
        _mm256_srli_epi32::<4>(bytes)
    }
}

/// The same with the fifth bit of each, which are together.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn five_bits(fifth: *const u8, bytes: *const u8, first: usize) -> __m256 {
    // SAFETY: as the caller promises.
    let (four, fifth) = unsafe {
        let fifth = fifth.add(first % BLOCK / LANES).read();
        (four_bits(bytes, first), fifth)
    };
    let each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    let set = _mm256_and_si256(_mm256_set1_epi32(fifth.into()), each);
    let sixteen = _mm256_and_si256(_mm256_cmpeq_epi32(set, each), _mm256_set1_epi32(16));
    _mm256_cvtepi32_ps(_mm256_or_si256(four, sixteen))
}
