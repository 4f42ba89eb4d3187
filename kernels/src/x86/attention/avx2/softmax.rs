//! Weights of the cells of a row, and what they are relative to.

use std::arch::x86_64::*;
use std::f32::consts::LOG2_E;

use super::LANES;
use super::exp::{bend, exp2, exp2_of_one};

/// Largest score of a row, to which its weights are relative, and the sum of the weights.
#[derive(Clone, Copy)]
pub(super) struct SoftmaxState {
    pub(super) largest: f32,
    pub(super) total: f32,
}

/// Factors of the sums of a row: those before, and those of a block of cells.
#[derive(Clone, Copy)]
pub(super) struct Factors {
    pub(super) before: f32,
    pub(super) here: f32,
}

impl SoftmaxState {
    /// Before the first cell: nothing, or the score that belongs to the head.
    pub(super) fn new(sink: Option<f32>) -> Self {
        match sink {
            Some(sink) => Self {
                largest: sink * LOG2_E,
                total: 1.0,
            },
            None => Self {
                largest: f32::NEG_INFINITY,
                total: 0.0,
            },
        }
    }

    /// Adds cells that have weights of their own.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn add(&mut self, other: Self) -> Factors {
        let old = self.largest;
        self.largest = old.max(other.largest);
        let new = anchor(self.largest);
        let factors = Factors {
            before: exp2_of_one(old - new),
            here: exp2_of_one(other.largest - new),
        };
        self.total = other
            .total
            .mul_add(factors.here, self.total * factors.before);
        factors
    }

    /// Returns the final factor of sums; 0 for a row that has seen nothing.
    pub(super) fn share(self) -> f32 {
        if self.total == 0.0 {
            0.0
        } else {
            1.0 / self.total
        }
    }
}

/// The score to which weights are relative: 0 if nothing was seen, because the difference of
/// infinities is NaN.
fn anchor(largest: f32) -> f32 {
    if largest == f32::NEG_INFINITY {
        0.0
    } else {
        largest
    }
}

/// Bends scores so that they stay below `cap`.
#[target_feature(enable = "avx2,fma")]
pub(super) fn cap_scores(cap: f32, scores: &mut [f32]) {
    let cap = _mm256_set1_ps(cap * LOG2_E);
    for scores in scores.chunks_exact_mut(LANES) {
        store(scores, _mm256_mul_ps(bend(load(scores)), cap));
    }
}

/// Adds what the mask has for cells to the scores, times a factor.
#[target_feature(enable = "avx2,fma")]
pub(super) fn hide(mask: &[f32], factor: f32, scores: &mut [f32]) {
    let factor = _mm256_set1_ps(factor);
    let unseen = _mm256_set1_ps(f32::NEG_INFINITY);
    let vectors = mask.chunks_exact(LANES).zip(scores.chunks_exact_mut(LANES));
    for (mask, scores) in vectors {
        let mask = load(mask);
        let hidden = _mm256_cmp_ps::<_CMP_EQ_OQ>(mask, unseen);
        let score = _mm256_fmadd_ps(mask, factor, load(scores));
        store(scores, _mm256_blendv_ps(score, unseen, hidden));
    }
}

/// Replaces scores by weights relative to the largest of them.
///
/// Weights are summed as integers. That is exact, so cells that are not seen change nothing, in
/// whichever lane the others are.
#[target_feature(enable = "avx2,fma")]
pub(super) fn weigh(scores: &mut [f32]) -> SoftmaxState {
    /// Integer for the weight 1.
    const ONE: f32 = (1 << 30) as f32;
    let mut largest = _mm256_set1_ps(f32::NEG_INFINITY);
    for scores in scores.chunks_exact(LANES) {
        largest = _mm256_max_ps(largest, load(scores));
    }
    let mut lanes = [0.0; LANES];
    store(&mut lanes, largest);
    let largest = lanes.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let anchor = _mm256_set1_ps(anchor(largest));
    let mut totals = [_mm256_setzero_si256(); 2];
    for scores in scores.chunks_exact_mut(LANES) {
        let weights = exp2(_mm256_sub_ps(load(scores), anchor));
        store(scores, weights);
        let counts = _mm256_cvtps_epi32(_mm256_mul_ps(weights, _mm256_set1_ps(ONE)));
        let low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(counts));
        let high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256::<1>(counts));
        totals[0] = _mm256_add_epi64(totals[0], low);
        totals[1] = _mm256_add_epi64(totals[1], high);
    }
    let mut counts = [0_i64; LANES / 2];
    let total = _mm256_add_epi64(totals[0], totals[1]);
    // SAFETY: four integers.
    unsafe { _mm256_storeu_si256(counts.as_mut_ptr().cast(), total) };
    SoftmaxState {
        largest,
        total: counts.iter().sum::<i64>() as f32 / ONE,
    }
}

/// Reads eight elements as floats.
#[inline]
#[target_feature(enable = "avx2")]
fn load(elements: &[f32]) -> __m256 {
    assert!(elements.len() == LANES);
    // SAFETY: there are eight.
    unsafe { _mm256_loadu_ps(elements.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(elements: &mut [f32], vector: __m256) {
    assert!(elements.len() == LANES);
    // SAFETY: there are eight.
    unsafe { _mm256_storeu_ps(elements.as_mut_ptr(), vector) };
}
