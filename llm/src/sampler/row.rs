//! Passes over a row of logits. Each reads the row once, in blocks that the compiler vectorizes.

use std::ops::ControlFlow;

use crate::protocol::Token;

/// Number of values that are added up or compared at once. The compiler uses as few vector
/// registers for them as the machine allows.
const LANES: usize = 16;
/// Size of a block whose maximum is checked before its single values.
const BLOCK: usize = 64;
/// Size of a block that stays in the nearest cache while its highest logit is searched again.
const CACHED: usize = 4096;
/// Number of weights in a run. A draw looks at sums of runs first, and then inside one.
pub(super) const RUN: usize = 512;

/// Returns the highest logit; negative infinity if there is none. NaN never counts as higher.
pub(super) fn highest(row: &[f32]) -> f32 {
    let higher = |left: f32, right: f32| if right > left { right } else { left };
    let mut lanes = [f32::NEG_INFINITY; BLOCK];
    let (blocks, rest) = row.as_chunks::<BLOCK>();
    for block in blocks {
        for (lane, logit) in lanes.iter_mut().zip(block) {
            *lane = higher(*lane, *logit);
        }
    }
    rest.iter()
        .chain(&lanes)
        .fold(f32::NEG_INFINITY, |highest, logit| higher(highest, *logit))
}

/// Returns the first index of the highest logit; `None` if that is not finite.
pub(super) fn argmax(row: &[f32]) -> Option<usize> {
    let mut best = f32::NEG_INFINITY;
    let mut number = 0;
    for (index, block) in row.chunks(CACHED).enumerate() {
        let highest = highest(block);
        if highest > best {
            best = highest;
            number = index;
        }
    }
    if !best.is_finite() {
        return None;
    }
    let block = row.chunks(CACHED).nth(number)?;
    let place = block.iter().position(|logit| *logit >= best)?;
    Some(number * CACHED + place)
}

/// Appends the row to `kept`, with negative infinity for logits whose bits are not set.
pub(super) fn keep(row: &[f32], bits: &[u32], kept: &mut Vec<f32>) {
    const WORD: usize = u32::BITS as usize;
    let bits = bits.iter().copied().chain(std::iter::repeat(0));
    for (block, word) in row.chunks(WORD).zip(bits) {
        match word {
            0 => kept.extend(std::iter::repeat_n(f32::NEG_INFINITY, block.len())),
            u32::MAX => kept.extend_from_slice(block),
            word => kept.extend((0..).zip(block).map(|(place, logit)| {
                if word >> place & 1 == 1 {
                    *logit
                } else {
                    f32::NEG_INFINITY
                }
            })),
        }
    }
}

/// Appends the row to `kept`, with negative infinity for all tokens but these, and for those whose
/// bits are not set.
pub(super) fn keep_tokens(
    row: &[f32],
    tokens: &[Token],
    bits: Option<&[u32]>,
    kept: &mut Vec<f32>,
) {
    let begin = kept.len();
    kept.resize(begin + row.len(), f32::NEG_INFINITY);
    for token in tokens {
        let token = *token as usize;
        if bits.is_none_or(|bits| is_set(bits, token)) {
            kept[begin + token] = row[token];
        }
    }
}

/// Returns true if the bit of a token is set.
pub(crate) fn is_set(bits: &[u32], token: usize) -> bool {
    let word = bits.get(token / 32);
    word.is_some_and(|word| word >> (token % 32) & 1 == 1)
}

/// Replaces logits that are more than `count` standard deviations below the highest by negative
/// infinity. Infinite logits are not counted.
pub(super) fn drop_below_sigma(row: &mut [f32], count: f32) {
    let finite = || {
        row.iter()
            .copied()
            .filter(|it| it.is_finite())
            .map(f64::from)
    };
    let number = finite().count().max(1) as f64;
    let mean = finite().sum::<f64>() / number;
    let squares: f64 = finite().map(|logit| (logit - mean).powi(2)).sum();
    let deviation = (squares / number).sqrt();
    let least = (f64::from(highest(row)) - f64::from(count) * deviation) as f32;
    for logit in row {
        if *logit < least {
            *logit = f32::NEG_INFINITY;
        }
    }
}

/// Calls `take` in order with the index and the value of each logit that is at least `threshold`,
/// until `take` breaks. `take` may raise the threshold.
pub(super) fn at_least(
    row: &[f32],
    mut threshold: f32,
    mut take: impl FnMut(usize, f32, &mut f32) -> ControlFlow<()>,
) {
    for (number, block) in row.chunks(BLOCK).enumerate() {
        if highest(block) >= threshold {
            for (place, logit) in block.iter().enumerate() {
                if *logit >= threshold
                    && take(number * BLOCK + place, *logit, &mut threshold).is_break()
                {
                    return;
                }
            }
        }
    }
}

/// Returns a logit's probability relative to that of the highest one.
pub(super) fn weight(logit: f32, highest: f32, sharpness: f32) -> f32 {
    exp((logit - highest) * sharpness)
}

/// Fills `weights` with the weight of each logit.
pub(super) fn weigh(row: &[f32], highest: f32, sharpness: f32, weights: &mut Vec<f32>) {
    weights.clear();
    weights.extend(row.iter().map(|logit| weight(*logit, highest, sharpness)));
}

/// Returns the sum of the weights of all logits.
pub(super) fn total_weight(row: &[f32], highest: f32, sharpness: f32) -> f64 {
    let run = |run: &[f32]| sum(run, |logit| weight(logit, highest, sharpness));
    row.chunks(RUN).map(run).sum()
}

/// Fills `sums` with the sum of each run of weights, and returns the total.
pub(super) fn sum_runs(weights: &[f32], sums: &mut Vec<f64>) -> f64 {
    sums.clear();
    sums.extend(weights.chunks(RUN).map(|run| sum(run, |weight| weight)));
    sums.iter().sum()
}

/// Sums a run in independent lanes. Summed in order, each addition would wait for the one before
/// it.
fn sum(run: &[f32], value: impl Fn(f32) -> f32) -> f64 {
    let mut lanes = [0.0_f32; LANES];
    let (blocks, rest) = run.as_chunks::<LANES>();
    for block in blocks {
        for (lane, number) in lanes.iter_mut().zip(block) {
            *lane += value(*number);
        }
    }
    let rest: f64 = rest.iter().map(|number| f64::from(value(*number))).sum();
    rest + lanes.iter().copied().map(f64::from).sum::<f64>()
}

/// Computes `e^x` for `x <= 0` to about 1e-7; 0 below -87 and for NaN.
fn exp(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    /// Adding this leaves the nearest integer in the lowest bits of a float.
    const ROUND: f32 = 12_582_912.0;
    let clamped = if x > -87.0 { x } else { -87.0 };
    let rounded = clamped * std::f32::consts::LOG2_E + ROUND;
    let power = rounded - ROUND;
    let r = clamped - power * LN2_HIGH - power * LN2_LOW;
    let polynomial = 1.0
        + r * (1.0
            + r * (0.5
                + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0))))));
    let exponent = rounded
        .to_bits()
        .wrapping_sub(ROUND.to_bits())
        .wrapping_add(127);
    let scale = f32::from_bits(exponent << 23);
    if x > -87.0 { polynomial * scale } else { 0.0 }
}
