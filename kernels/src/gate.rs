//! Gates of experts: each element of a result is multiplied by the `SiLU` of its gate's element, which
//! is `x / (1 + e^-x)`. The compiler makes vector instructions of the loop; the results are the same
//! with all of them.
#![allow(
    clippy::inline_always,
    reason = "what is not inlined is not compiled for the instructions of its caller"
)]

use crate::data::exp2::{COEFFICIENTS, LEAST};
#[cfg(target_arch = "x86_64")]
use crate::kernels::FloatSet;
use crate::kernels::Kernels;

/// The largest whole power of two that is finite.
const MOST: f32 = 127.0;
/// Added to a number and taken away again, it rounds to a whole number, which is in the low bits
/// of the sum.
const ROUND: f32 = 12_582_912.0;

impl Kernels {
    /// Multiplies each element of `results` by the `SiLU` of the one in `gates`.
    pub(crate) fn gate(self, results: &mut [f32], gates: &[f32]) {
        match self.floats() {
            // SAFETY: these instructions have AVX-512.
            #[cfg(target_arch = "x86_64")]
            Some(FloatSet::Avx512) => unsafe { gate512(results, gates) },
            // SAFETY: and these have AVX2.
            #[cfg(target_arch = "x86_64")]
            Some(FloatSet::Avx2) => unsafe { gate256(results, gates) },
            None => each(results, gates),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn gate512(results: &mut [f32], gates: &[f32]) {
    each(results, gates);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn gate256(results: &mut [f32], gates: &[f32]) {
    each(results, gates);
}

#[inline(always)]
fn each(results: &mut [f32], gates: &[f32]) {
    for (result, gate) in results.iter_mut().zip(gates) {
        *result *= silu(*gate);
    }
}

#[inline(always)]
fn silu(x: f32) -> f32 {
    x / (1.0 + exp2(x * -std::f32::consts::LOG2_E))
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

    #[test]
    fn all_instructions_give_the_same_results_and_the_right_ones() {
        let gates: Vec<f32> = (-4000..4000).map(|number| number as f32 / 37.0).collect();
        let expected = gates.iter().map(|gate| {
            let gate = f64::from(*gate);
            3.0 * gate / (1.0 + (-gate).exp())
        });
        let expected: Vec<f64> = expected.collect();
        let mut portable = vec![3.0; gates.len()];
        each(&mut portable, &gates);
        for (result, expected) in portable.iter().zip(&expected) {
            let difference = (f64::from(*result) - expected).abs();
            assert!(difference <= 1e-5 * expected.abs() + 1e-30, "{result}");
        }
        for kernels in Kernels::all() {
            let mut results = vec![3.0; gates.len()];
            kernels.gate(&mut results, &gates);
            assert_eq!(results, portable, "{}", kernels.name());
        }
    }

    #[test]
    fn gates_may_be_infinite_or_nan() {
        for kernels in Kernels::all() {
            let mut results = [1.0; 4];
            kernels.gate(&mut results, &[f32::INFINITY, 1e30, -1e30, f32::NAN]);
            assert_eq!(results[..2], [f32::INFINITY, 1e30], "{}", kernels.name());
            assert!(results[2].abs() < 1e-7, "{}", kernels.name());
            assert!(results[3].is_nan(), "{}", kernels.name());
        }
    }
}
