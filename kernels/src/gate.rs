//! Gates of experts. The compiler makes vector instructions of the loops; the results are the same
//! with all of them.
#![allow(
    clippy::inline_always,
    reason = "what is not inlined is not compiled for the instructions of its caller"
)]

use std::f32::consts::LOG2_E;

use crate::data::exp2::{COEFFICIENTS, LEAST};
use crate::data::mixture::Gating;
#[cfg(target_arch = "x86_64")]
use crate::kernels::FloatSet;
use crate::kernels::Kernels;

/// The largest whole power of two that is finite.
const MOST: f32 = 127.0;
/// Added to a number and taken away again, it rounds to a whole number, which is in the low bits
/// of the sum.
const ROUND: f32 = 12_582_912.0;
/// Of GELU: `1 + tanh(y)` is `2 / (1 + e^-2y)`, and here `y` is `sqrt(2 / pi) (x + 0.044715 x^3)`.
const TWICE_SQRT_2_PI: f32 = 1.595_769;
const GELU_CUBE: f32 = 0.044_715;

impl Kernels {
    /// Gates each element of `results` by the one in `gates`.
    pub(crate) fn gate(self, gating: Gating, results: &mut [f32], gates: &[f32]) {
        match self.floats() {
            // SAFETY: these instructions have AVX-512.
            #[cfg(target_arch = "x86_64")]
            Some(FloatSet::Avx512) => unsafe { gate512(gating, results, gates) },
            // SAFETY: and these have AVX2.
            #[cfg(target_arch = "x86_64")]
            Some(FloatSet::Avx2) => unsafe { gate256(gating, results, gates) },
            None => all(gating, results, gates),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn gate512(gating: Gating, results: &mut [f32], gates: &[f32]) {
    all(gating, results, gates);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn gate256(gating: Gating, results: &mut [f32], gates: &[f32]) {
    all(gating, results, gates);
}

#[inline(always)]
fn all(gating: Gating, results: &mut [f32], gates: &[f32]) {
    let pairs = results.iter_mut().zip(gates);
    match gating {
        Gating::Silu => pairs.for_each(|(result, gate)| *result *= part(*gate, *gate)),
        Gating::Gelu => pairs.for_each(|(result, gate)| {
            let argument = TWICE_SQRT_2_PI * (gate + GELU_CUBE * gate * gate * gate);
            *result *= part(*gate, argument);
        }),
        Gating::Oai { alpha, limit } => pairs.for_each(|(result, gate)| {
            // NaN stays NaN.
            let gate = if *gate > limit { limit } else { *gate };
            *result = part(gate, alpha * gate) * (result.clamp(-limit, limit) + 1.0);
        }),
    }
}

/// The part of `x` that is `1 / (1 + e^-argument)`.
#[inline(always)]
fn part(x: f32, argument: f32) -> f32 {
    x / (1.0 + exp2(argument * -LOG2_E))
}

/// 2 to the power of x, between 2^-126 and 2^127. NaN stays NaN.
#[inline(always)]
fn exp2(x: f32) -> f32 {
    let x = x.clamp(LEAST, MOST);
    let sum = x + ROUND;
    let rest = x - (sum - ROUND);
    let mut power = COEFFICIENTS[0];
    for coefficient in &COEFFICIENTS[1..] {
        power = power.mul_add(rest, *coefficient);
    }
    power = power.mul_add(rest, 1.0);
    // The exponent of 1, and the whole number.
    let exponent = (1f32.to_bits() >> 23).wrapping_add(sum.to_bits());
    power * f32::from_bits(exponent << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OAI: Gating = Gating::Oai {
        alpha: 1.702,
        limit: 7.0,
    };

    /// What 3 becomes.
    fn expected(gating: Gating, gate: f64) -> f64 {
        let part = |x: f64, argument: f64| x / (1.0 + (-argument).exp());
        match gating {
            Gating::Silu => 3.0 * part(gate, gate),
            Gating::Gelu => {
                let argument =
                    (8.0 / std::f64::consts::PI).sqrt() * (gate + 0.044_715 * gate.powi(3));
                3.0 * part(gate, argument)
            }
            Gating::Oai { .. } => 4.0 * part(gate.min(7.0), 1.702 * gate.min(7.0)),
        }
    }

    #[test]
    fn all_instructions_give_the_same_results_and_the_right_ones() {
        let gates: Vec<f32> = (-4000..4000).map(|number| number as f32 / 37.0).collect();
        for gating in [Gating::Silu, Gating::Gelu, OAI] {
            let mut portable = vec![3.0; gates.len()];
            all(gating, &mut portable, &gates);
            for (result, gate) in portable.iter().zip(&gates) {
                let expected = expected(gating, f64::from(*gate));
                let difference = (f64::from(*result) - expected).abs();
                let room = 1e-5 * expected.abs() + 1e-12;
                assert!(
                    difference <= room,
                    "{gating:?} of {gate}: {result}, not {expected}"
                );
            }
            for kernels in Kernels::all() {
                let mut results = vec![3.0; gates.len()];
                kernels.gate(gating, &mut results, &gates);
                assert_eq!(results, portable, "{}", kernels.name());
            }
        }
    }

    #[test]
    fn results_have_limits() {
        let mut results = [-9.0, -7.0, 7.0, 9.0];
        all(OAI, &mut results, &[9.0, 7.0, 9.0, 7.0]);
        assert_eq!(results[..1], results[1..2]);
        assert_eq!(results[2..3], results[3..]);
        assert!((results[3] - 56.0).abs() < 0.01, "{results:?}");
    }

    #[test]
    fn gates_may_be_infinite_or_nan() {
        for kernels in Kernels::all() {
            for gating in [Gating::Silu, Gating::Gelu, OAI] {
                let mut results = [1.0; 4];
                kernels.gate(
                    gating,
                    &mut results,
                    &[f32::INFINITY, 1e30, -1e30, f32::NAN],
                );
                let name = kernels.name();
                if gating == OAI {
                    assert!((results[0] - 14.0).abs() < 0.01, "{name}: {results:?}");
                    assert_eq!(results[..1], results[1..2], "{name}");
                } else {
                    assert_eq!(results[..2], [f32::INFINITY, 1e30], "{name}");
                }
                assert!(results[2].abs() < 1e-7, "{name}");
                assert!(results[3].is_nan(), "{name}");
            }
            let mut results = [f32::NAN];
            kernels.gate(OAI, &mut results, &[1.0]);
            assert!(results[0].is_nan(), "{}", kernels.name());
        }
    }
}
