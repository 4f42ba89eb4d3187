//! No further from exact matmuls than llama.cpp's own arithmetic, which is written out here.

use crate::common::{self, Case, matmuls, meaning};
use graphmill_kernels::{Format, Kernels};

/// Rounds to the 11 bits of a binary16 number, which may be subnormal.
fn to_half(value: f64) -> f64 {
    let unit = 2f64.powi((value.abs().log2().floor() as i32).max(-14) - 10);
    let rounded = (value / unit).round_ties_even() * unit;
    if value == 0.0 || rounded.abs() < 65520.0 {
        rounded
    } else {
        f64::INFINITY.copysign(value)
    }
}

/// Rounds to the 8 bits of the upper half of a binary32 number.
fn to_brain(value: f64) -> f64 {
    let unit = 2f64.powi((value.abs().log2().floor() as i32).max(-126) - 7);
    if value == 0.0 {
        return value;
    }
    (value / unit).round_ties_even() * unit
}

/// An activation as llama.cpp rounds it for a format: like the weights if these are floating-point
/// values, or in blocks of 32 with a 16-bit scale, or of 256 with a 32-bit one.
fn stock_activation(format: Format, activation: &[f32]) -> Vec<f64> {
    let block = format.block();
    if format.is_float() {
        let round = match format {
            Format::F16 => to_half,
            _ => to_brain,
        };
        return activation
            .iter()
            .map(|number| round(f64::from(*number)))
            .collect();
    }
    activation
        .chunks_exact(block)
        .flat_map(|numbers| {
            let largest = numbers.iter().fold(0f32, |largest, number| {
                if number.abs() > largest.abs() {
                    *number
                } else {
                    largest
                }
            });
            // The larger blocks are scaled by -127 over their largest number, with its sign.
            let divisor = if block == 32 {
                largest.abs() / 127.0
            } else {
                largest / -127.0
            };
            let scale = if block == 32 {
                to_half(f64::from(divisor))
            } else {
                f64::from(divisor)
            };
            let factor = if divisor == 0.0 { 0.0 } else { 1.0 / divisor };
            numbers
                .iter()
                .map(|number| f64::from((number * factor).round().clamp(-128.0, 127.0)) * scale)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Root of the mean squared error of ours and of llama.cpp's way.
fn errors(case: &Case, ours: &[f32]) -> (f64, f64) {
    let exact = case.exact();
    let weights = case.meaning();
    let stock: Vec<f64> = case
        .activations
        .chunks_exact(case.cols)
        .flat_map(|activation| {
            let rounded = stock_activation(case.format, activation);
            weights
                .chunks_exact(case.cols)
                .map(|row| {
                    row.iter()
                        .zip(&rounded)
                        .map(|(weight, number)| weight * number)
                        .sum()
                })
                .collect::<Vec<f64>>()
        })
        .collect();
    let root = |out: &mut dyn Iterator<Item = f64>| {
        let (sum, count) = out
            .zip(&exact)
            .fold((0.0, 0), |(sum, count), (out, exact)| {
                (sum + (out - exact).powi(2), count + 1)
            });
        (sum / f64::from(count)).sqrt()
    };
    (
        root(&mut ours.iter().map(|out| f64::from(*out))),
        root(&mut stock.iter().copied()),
    )
}

/// Asserts that every choice of instructions errs no more than stock does; both round 32-bit sums,
/// which counts as a part of the result.
fn check(case: &Case, what: &str) {
    let size = case
        .exact()
        .iter()
        .fold(0f64, |largest, number| largest.max(number.abs()));
    for (kernels, ours) in matmuls(case) {
        let (ours, stock) = errors(case, &ours);
        let rounding = size * f64::from(f32::EPSILON) * case.cols as f64 / 32.0;
        assert!(
            ours <= stock * 1.02 + rounding,
            "{} {:?} {what}: {ours:e}, stock {stock:e}",
            kernels.name(),
            case.format
        );
    }
}

#[test]
fn random_numbers() {
    for format in Format::ALL {
        check(&Case::random(format, 64, 1024, 40, 5), "random");
    }
}

#[test]
fn outliers_and_tiny_numbers() {
    for format in Format::ALL {
        let mut case = Case::random(format, 64, 1024, 24, 6);
        for (at, number) in case.activations.iter_mut().enumerate() {
            *number *= match at % 97 {
                0 => 1e4,
                1..20 => 1e-4,
                _ => 1.0,
            };
        }
        check(&case, "outliers");
        case.activations
            .iter_mut()
            .for_each(|number| *number *= 1e-6);
        check(&case, "tiny");
    }
}

#[test]
fn equal_numbers() {
    for format in Format::ALL {
        let mut case = Case::random(format, 32, 512, 20, 7);
        case.activations.fill(0.7);
        check(&case, "equal");
        case.activations
            .iter_mut()
            .enumerate()
            .for_each(|(at, number)| *number = if at % 2 == 0 { -3.3 } else { 3.3 });
        check(&case, "of either sign");
    }
}

#[test]
fn weights_at_their_ends() {
    for (format, byte) in [
        (Format::Q8_0, 0x80),
        (Format::Q8_0, 0x7f),
        (Format::Q4_0, 0x00),
        (Format::Q4_0, 0xff),
        (Format::Q5_0, 0x00),
        (Format::Q5_0, 0xff),
        (Format::Q5_1, 0xff),
        (Format::MxFp4, 0x77),
        (Format::Iq4Nl, 0x00),
        (Format::Iq4Nl, 0xff),
        (Format::Iq4Xs, 0x00),
        (Format::Iq4Xs, 0xff),
        (Format::Q2K, 0xff),
        (Format::Q3K, 0x00),
        (Format::Q3K, 0xff),
        (Format::Q4K, 0xff),
        (Format::Q5K, 0xff),
        (Format::Q6K, 0xff),
        (Format::Q6K, 0x00),
    ] {
        let mut case = Case::random(format, 33, 512, 20, 8);
        for block in case.weights.chunks_exact_mut(format.block_bytes()) {
            let scales: Vec<(usize, [u8; 2])> = common::scales(format)
                .iter()
                .map(|at| (*at, [block[*at], block[at + 1]]))
                .collect();
            block.fill(byte);
            for (at, scale) in scales {
                block[at..at + 2].copy_from_slice(&scale);
            }
            assert!(
                meaning(format, block)
                    .iter()
                    .all(|weight| weight.is_finite())
            );
        }
        check(&case, "extreme");
        case.activations
            .iter_mut()
            .for_each(|number| *number = number.signum());
        check(&case, "extreme weights and activations");
    }
}

#[test]
fn what_is_not_finite_stays_so() {
    for format in Format::ALL {
        // One activation, few of them, and more than a tile has.
        for (tokens, spoiled) in [(1, 0), (3, 2), (20, 7), (70, 69)] {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut case = Case::random(format, 40, 512, tokens, 9);
                case.activations[spoiled * 512 + 300] = bad;
                for (kernels, out) in matmuls(&case) {
                    for (at, number) in out.iter().enumerate() {
                        assert_eq!(
                            number.is_finite(),
                            at / case.rows != spoiled,
                            "{} {format:?} {bad} at {at} of {tokens} activations",
                            kernels.name()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_scale_that_is_no_number_spoils_its_row_alone() {
    for format in Format::ALL {
        let mut case = Case::random(format, 40, 512, 20, 10);
        let [scale, ..] = common::scales(format) else {
            continue; // powers of two are numbers
        };
        let at = 11 * format.row_bytes(case.cols) + scale;
        let not_a_number = match format {
            Format::Bf16 => [0xc0, 0x7f],
            _ => [0x00, 0x7e],
        };
        case.weights[at..at + 2].copy_from_slice(&not_a_number);
        for (kernels, out) in matmuls(&case) {
            for (at, number) in out.iter().enumerate() {
                assert_eq!(
                    number.is_nan(),
                    at % case.rows == 11,
                    "{} {format:?} at {at}",
                    kernels.name()
                );
            }
        }
    }
}

#[test]
fn zeros_and_the_smallest_numbers() {
    for format in Format::ALL {
        for value in [0.0, -0.0, f32::MIN_POSITIVE / 8.0, 1e-37, 1e-29, 1e30] {
            let mut case = Case::random(format, 32, 256, 18, 11);
            case.activations.fill(value);
            let exact = case.exact();
            for (kernels, out) in matmuls(&case) {
                for (ours, exact) in out.iter().zip(&exact) {
                    let bound = exact.abs() * 1e-3
                        + f64::from(value.abs()).min(1e-29) * 1e4
                        + f64::from(value.abs()) * 1e-2;
                    assert!(
                        (f64::from(*ours) - exact).abs() <= bound,
                        "{} {format:?} {value}: {ours} for {exact}",
                        kernels.name()
                    );
                }
            }
        }
    }
}

#[test]
fn detect_gives_one_of_all() {
    let all = Kernels::all();
    assert!(Kernels::detect().is_none_or(|kernels| all.contains(&kernels)));
    assert_eq!(all.last().map(Kernels::name), Some("portable"));
}
