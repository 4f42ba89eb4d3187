//! Elements of sixteen rows side by side, and the largest scores, to which weights are relative.

use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

use super::super::TokenRun;
use super::LANES;
use super::exp::{bend, exp2};

/// One element of each of sixteen rows, or sixteen elements of one.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Lanes(pub(super) [f32; LANES]);

impl Lanes {
    pub(super) const ZERO: Self = Self([0.0; LANES]);

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn load(&self) -> __m512 {
        // SAFETY: sixteen elements.
        unsafe { _mm512_load_ps(self.0.as_ptr()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn store(&mut self, vector: __m512) {
        // SAFETY: sixteen elements.
        unsafe { _mm512_store_ps(self.0.as_mut_ptr(), vector) };
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn are_finite(&self) -> bool {
        let sizes = _mm512_abs_ps(self.load());
        _mm512_cmplt_ps_mask(sizes, _mm512_set1_ps(f32::INFINITY)) == u16::MAX
    }
}

/// Largest scores of sixteen rows, to which their weights are relative, and the sums of the
/// weights.
#[derive(Clone, Copy)]
pub(super) struct SoftmaxState {
    pub(super) largest: Lanes,
    pub(super) total: Lanes,
}

impl SoftmaxState {
    /// Before the first cell: nothing, or the scores that belong to heads.
    pub(super) fn new(run: &TokenRun<'_>, rows: Range<usize>, sinks: bool) -> Self {
        let mut state = Self {
            largest: Lanes([f32::NEG_INFINITY; LANES]),
            total: Lanes::ZERO,
        };
        for (lane, row) in rows.take(LANES).enumerate() {
            if let Some(sink) = run.sink(row).filter(|_| sinks) {
                state.largest.0[lane] = sink * std::f32::consts::LOG2_E;
                state.total.0[lane] = 1.0;
            }
        }
        state
    }

    /// Adds cells whose weights are relative to `largest`. Gives the factors of the sums before
    /// them, and of theirs.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn add(&mut self, largest: __m512, total: __m512) -> (__m512, __m512) {
        let old = self.largest.load();
        let new = _mm512_max_ps(old, largest);
        self.largest.store(new);
        let new = anchor(new);
        let before = exp2(_mm512_sub_ps(old, new));
        let here = exp2(_mm512_sub_ps(largest, new));
        let old = _mm512_mul_ps(self.total.load(), before);
        self.total.store(_mm512_fmadd_ps(total, here, old));
        (before, here)
    }

    /// Returns the final factors of sums; 0 for rows that have seen nothing.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn shares(&self) -> Lanes {
        let total = self.total.load();
        let some = _mm512_cmpneq_ps_mask(total, _mm512_setzero_ps());
        let mut shares = Lanes::ZERO;
        shares.store(_mm512_maskz_div_ps(some, _mm512_set1_ps(1.0), total));
        shares
    }
}

/// The score to which weights are relative: 0 if nothing was seen, because the difference of
/// infinities is NaN.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn anchor(largest: __m512) -> __m512 {
    let nothing = _mm512_cmpeq_ps_mask(largest, _mm512_set1_ps(f32::NEG_INFINITY));
    _mm512_mask_mov_ps(largest, nothing, _mm512_setzero_ps())
}

/// Soft-caps scores so that they stay below `cap`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn cap_scores(cap: f32, scores: &mut [Lanes]) {
    let cap = _mm512_set1_ps(cap * std::f32::consts::LOG2_E);
    for score in scores {
        score.store(_mm512_mul_ps(bend(score.load()), cap));
    }
}

/// Replaces scores by weights relative to the largest of them, and gives that and their sums.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn weigh<const V: usize>(scores: &mut [Lanes]) -> [(__m512, __m512); V] {
    let mut largest = [_mm512_set1_ps(f32::NEG_INFINITY); V];
    for scores in scores.chunks_exact(V) {
        for v in 0..V {
            largest[v] = _mm512_max_ps(largest[v], scores[v].load());
        }
    }
    let mut sums = largest.map(|largest| (largest, _mm512_setzero_ps()));
    let anchors = largest.map(|largest| anchor(largest));
    for scores in scores.chunks_exact_mut(V) {
        for v in 0..V {
            let weight = exp2(_mm512_sub_ps(scores[v].load(), anchors[v]));
            sums[v].1 = _mm512_add_ps(sums[v].1, weight);
            scores[v].store(weight);
        }
    }
    sums
}

/// Adds a product, here and not where the compiler would, and in the register of the sum.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn add_product(sum: &mut __m512, a: __m512, b: __m512) {
    // SAFETY: the instruction reads and writes these alone.
    unsafe {
        asm!(
            "vfmadd231ps {}, {}, {}",
            inout(zmm_reg) *sum,
            in(zmm_reg) a,
            in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
}

/// Elements of sixteen rows, times a factor: a vector for each element, `stride` vectors apart.
/// Rows without a place are zero.
///
/// # Safety
/// Rows must have `count` elements, and there must be room for a vector for each.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn gather(
    rows: &[*const f32; LANES],
    count: usize,
    factor: f32,
    out: *mut Lanes,
    stride: usize,
) {
    let factor = _mm512_set1_ps(factor);
    for first in (0..count).step_by(LANES) {
        let left = (count - first).min(LANES);
        let present = u16::MAX >> (LANES - left);
        let mut square = [_mm512_setzero_ps(); LANES];
        for (row, vector) in rows.iter().zip(&mut square) {
            if !row.is_null() {
                // SAFETY: what is absent is not read.
                let numbers = unsafe { _mm512_maskz_loadu_ps(present, row.add(first)) };
                *vector = _mm512_mul_ps(numbers, factor);
            }
        }
        for (index, vector) in transpose(&square)[..left].iter().enumerate() {
            // SAFETY: there is room for it.
            unsafe { (*out.add((first + index) * stride)).store(*vector) };
        }
    }
}

/// Writes vectors, `stride` vectors apart, to sixteen rows, times a factor for each row.
///
/// # Safety
/// Rows that have a place must have room for `count` elements, and there must be a vector for each.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn scatter(
    source: *const Lanes,
    stride: usize,
    factors: &Lanes,
    count: usize,
    rows: &[*const f32; LANES],
) {
    let factors = factors.load();
    for first in (0..count).step_by(LANES) {
        let left = (count - first).min(LANES);
        let present = u16::MAX >> (LANES - left);
        let mut square = [_mm512_setzero_ps(); LANES];
        for (index, vector) in square[..left].iter_mut().enumerate() {
            // SAFETY: there is a vector for it.
            let numbers = unsafe { (*source.add((first + index) * stride)).load() };
            *vector = _mm512_mul_ps(numbers, factors);
        }
        for (row, vector) in rows.iter().zip(transpose(&square)) {
            if !row.is_null() {
                // SAFETY: there is room for what is present.
                unsafe { _mm512_mask_storeu_ps(row.cast_mut().add(first), present, vector) };
            }
        }
    }
}

/// Transposes sixteen rows.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: &[__m512; LANES]) -> [__m512; LANES] {
    let mut pairs = *rows;
    for i in (0..LANES).step_by(2) {
        pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    }
    let mut fours = pairs;
    for i in (0..LANES).step_by(4) {
        for half in 0..2 {
            let low = _mm512_castps_pd(pairs[i + half]);
            let high = _mm512_castps_pd(pairs[i + 2 + half]);
            fours[i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            fours[i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    }
    // Vector `i` of each four rows has the columns `i`, `i + 4`, `i + 8` and `i + 12`.
    let mut columns = fours;
    for i in 0..4 {
        let [a, b, c, d] = [fours[i], fours[i + 4], fours[i + 8], fours[i + 12]];
        let (even, odd) = (
            _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b),
            _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b),
        );
        let (others_even, others_odd) = (
            _mm512_shuffle_f32x4::<0b10_00_10_00>(c, d),
            _mm512_shuffle_f32x4::<0b11_01_11_01>(c, d),
        );
        columns[i] = _mm512_shuffle_f32x4::<0b10_00_10_00>(even, others_even);
        columns[i + 8] = _mm512_shuffle_f32x4::<0b11_01_11_01>(even, others_even);
        columns[i + 4] = _mm512_shuffle_f32x4::<0b10_00_10_00>(odd, others_odd);
        columns[i + 12] = _mm512_shuffle_f32x4::<0b11_01_11_01>(odd, others_odd);
    }
    columns
}
