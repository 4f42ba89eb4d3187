//! Converts keys and values of every type to 32-bit elements.

use std::arch::x86_64::*;

use super::super::{BF16, F16, F32, NUMBERS_BLOCK as BLOCK, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Source};
use super::LANES;
use crate::data::attention::Numbers;

/// Cells that are read together.
const AT_ONCE: usize = 4;
impl Source {
    /// Those that come soon if cells follow each other: as many as these, `cells` further.
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
            match self.numbers {
                Numbers::F32 => self.each::<F32, MIXED>(cells, out),
                Numbers::F16 => self.each::<F16, MIXED>(cells, out),
                Numbers::Bf16 => self.each::<BF16, MIXED>(cells, out),
                Numbers::Q8_0 => self.each::<Q8_0, MIXED>(cells, out),
                Numbers::Q5_1 => self.each::<Q5_1, MIXED>(cells, out),
                Numbers::Q5_0 => self.each::<Q5_0, MIXED>(cells, out),
                Numbers::Q4_1 => self.each::<Q4_1, MIXED>(cells, out),
                Numbers::Q4_0 => self.each::<Q4_0, MIXED>(cells, out),
            }
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
                    together::<NUMBERS, MIXED>(&rows, first, u16::MAX, out, stride);
                }
                if whole < self.size {
                    let present = u16::MAX >> (LANES - (self.size - whole));
                    together::<NUMBERS, MIXED>(&rows, whole, present, out, stride);
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

/// Where each of sixteen elements of a key is, if it is interleaved with others: theirs follow.
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
    present: u16,
    out: *mut f32,
    stride: usize,
) {
    // SAFETY: as the caller promises.
    let [a, b, c, d] = rows.map(|row| unsafe { vector::<NUMBERS>(row, first, present) });
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

/// Sixteen elements from the element `first` on, a multiple of sixteen; absent ones are zero.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn vector<const NUMBERS: u8>(source: *const u8, first: usize, present: u16) -> __m512 {
    // SAFETY: what is absent is not read; blocks have two vectors each.
    unsafe {
        match NUMBERS {
            F32 => _mm512_maskz_loadu_ps(present, source.cast::<f32>().add(first)),
            F16 => {
                let bits = _mm256_maskz_loadu_epi16(present, source.cast::<i16>().add(first));
                _mm512_cvtph_ps(bits)
            }
            BF16 => {
                let bits = _mm256_maskz_loadu_epi16(present, source.cast::<i16>().add(first));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits)))
            }
            Q8_0 => {
                let block = source.add(first / BLOCK * 34);
                let integers = _mm_loadu_si128(block.add(2 + first % BLOCK).cast());
                let whole = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(integers));
                _mm512_mul_ps(whole, half(block))
            }
            Q5_1 => {
                let block = source.add(first / BLOCK * 24);
                let integers = five_bits(block.add(4), block.add(8), first);
                _mm512_fmadd_ps(integers, half(block), half(block.add(2)))
            }
            Q5_0 => {
                let block = source.add(first / BLOCK * 22);
                let integers = five_bits(block.add(2), block.add(6), first);
                _mm512_mul_ps(_mm512_sub_ps(integers, _mm512_set1_ps(16.0)), half(block))
            }
            Q4_1 => {
                let block = source.add(first / BLOCK * 20);
                let integers = _mm512_cvtepi32_ps(four_bits(block.add(4), first));
                _mm512_fmadd_ps(integers, half(block), half(block.add(2)))
            }
            _ => {
                let block = source.add(first / BLOCK * 18);
                let integers = _mm512_cvtepi32_ps(four_bits(block.add(2), first));
                _mm512_mul_ps(_mm512_sub_ps(integers, _mm512_set1_ps(8.0)), half(block))
            }
        }
    }
}

/// A binary16 value.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn half(source: *const u8) -> __m512 {
    // SAFETY: as the caller promises.
    let bits = unsafe { source.cast::<i16>().read_unaligned() };
    _mm512_cvtph_ps(_mm256_set1_epi16(bits))
}

/// Sixteen integers of a block: the lower bits of its bytes, or the upper ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn four_bits(bytes: *const u8, first: usize) -> __m512i {
    // SAFETY: as the caller promises.
    let bytes = _mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(bytes.cast()) });
    if first.is_multiple_of(BLOCK) {
        _mm512_and_si512(bytes, _mm512_set1_epi32(15))
    } else {
        _mm512_srli_epi32::<4>(bytes)
    }
}

/// The same with the fifth bit of each, which are together.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn five_bits(fifth: *const u8, bytes: *const u8, first: usize) -> __m512 {
    // SAFETY: as the caller promises.
    let (four, fifth) = unsafe {
        let fifth = fifth.add(first % BLOCK / 8).cast::<u16>();
        (four_bits(bytes, first), fifth.read_unaligned())
    };
    let five = _mm512_mask_add_epi32(four, fifth, four, _mm512_set1_epi32(16));
    _mm512_cvtepi32_ps(five)
}
