//! A result depends only on its row and its activation: with any other activations, any division
//! among threads, and any instructions.

use crate::common::{Case, Numbers, assert_same, matmul, matmuls};
use graphmill_kernels::{Format, Kernels};
use proptest::prelude::*;

/// The results of some activations of a matmul.
fn of_tokens(out: &[f32], rows: usize, tokens: std::ops::Range<usize>) -> &[f32] {
    &out[tokens.start * rows..tokens.end * rows]
}

#[test]
fn whatever_the_number_of_activations() {
    for format in Format::ALL {
        let whole = Case::random(format, 64, 512, 150, 1);
        for kernels in Kernels::all() {
            let all = matmul(kernels, &whole, 1);
            for tokens in (1..=70).chain([95, 96, 97, 128, 150]) {
                // The last ones, so that they also change their places.
                let some = whole.last_tokens(tokens);
                let expected = of_tokens(&all, whole.rows, whole.tokens - tokens..whole.tokens);
                assert_same(&matmul(kernels, &some, 1), expected, kernels.name());
            }
        }
    }
}

/// So many activations of so many columns are taken some columns at a time, and few of them all at
/// once.
#[test]
fn whatever_the_order() {
    for format in Format::ALL {
        let whole = Case::random(format, 40, 2048, 300, 4);
        let some = whole.last_tokens(20);
        for kernels in Kernels::all() {
            let all = matmul(kernels, &whole, 1);
            let expected = of_tokens(&all, whole.rows, 280..300);
            assert_same(&matmul(kernels, &some, 1), expected, kernels.name());
        }
    }
}

#[test]
fn whatever_the_parts() {
    for format in Format::ALL {
        let case = Case::random(format, 200, 256, 300, 2);
        for kernels in Kernels::all() {
            let whole = matmul(kernels, &case, 1);
            for parts in [2, 3, 4, 7, 8, 16, 24, 100] {
                assert_same(&matmul(kernels, &case, parts), &whole, kernels.name());
            }
        }
    }
}

#[test]
fn on_two_threads() {
    let case = Case::random(Format::Q8_0, 320, 896, 64, 3);
    for kernels in Kernels::all() {
        let alone = matmul(kernels, &case, 1);
        let together = std::thread::scope(|scope| {
            let threads = [(); 2].map(|()| scope.spawn(|| matmul(kernels, &case, 5)));
            threads.map(|thread| thread.join().expect("a matmul"))
        });
        for out in &together {
            assert_same(out, &alone, kernels.name());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn of_any_shape(format in 0..Format::ALL.len(), rows in 1..130usize, blocks in 1..9usize, tokens in 1..60usize, parts in 1..9usize, seed: u64) {
        let format = Format::ALL[format];
        let case = Case::random(format, rows, blocks * format.block(), tokens, seed);
        let exact = case.exact();
        let plain = matmul(*Kernels::all().last().expect("plain Rust runs everywhere"), &case, 1);
        case.assert_close(&plain, &exact, "plain Rust");
        for kernels in Kernels::all() {
            assert_same(&matmul(kernels, &case, parts), &plain, kernels.name());
        }
    }

    /// Weights and scales of any bits at all: subnormal, infinite, NaN.
    #[test]
    fn of_any_bits(format in 0..Format::ALL.len(), blocks in 1..4usize, tokens in 1..40usize, seed: u64) {
        let format = Format::ALL[format];
        let mut numbers = Numbers(seed);
        let mut case = Case::random(format, 40, blocks * format.block(), tokens, seed);
        case.weights.iter_mut().for_each(|byte| *byte = numbers.bits() as u8);
        for activation in &mut case.activations {
            if numbers.bits().is_multiple_of(64) {
                *activation = f32::from_bits(numbers.bits() as u32);
            }
        }
        let all = matmuls(&case);
        let (_, plain) = all.last().expect("plain Rust runs everywhere");
        for (kernels, out) in &all {
            assert_same(out, plain, kernels.name());
        }
    }
}
