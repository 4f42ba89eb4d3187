//! Weights in the types with blocks of 256, with small integers as the scales of their parts.

use super::weights::half;

/// Numbers of a block.
pub(super) const SUPERBLOCK: usize = 256;

/// Appends a block of `Q4_K`: for each 32 numbers a scale and a minimum of 6 bits.
pub(super) fn four_bits(block: &[f32], out: &mut Vec<u8>) {
    let mut scales = [0.0_f32; 8];
    let mut minima = [0.0_f32; 8];
    for (part, numbers) in block.chunks_exact(32).enumerate() {
        let lowest = numbers.iter().fold(0.0_f32, |low, number| low.min(*number));
        let highest = numbers
            .iter()
            .fold(lowest, |high, number| high.max(*number));
        scales[part] = (highest - lowest) / 15.0;
        minima[part] = -lowest;
    }
    let unit =
        |values: &[f32; 8]| values.iter().fold(0.0_f32, |high, value| high.max(*value)) / 63.0;
    let (scale_unit, minimum_unit) = (unit(&scales), unit(&minima));
    let scales = scales.map(|scale| whole(scale, scale_unit).clamp(0, 63) as u8);
    let minima = minima.map(|minimum| whole(minimum, minimum_unit).clamp(0, 63) as u8);
    out.extend(half(scale_unit).to_le_bytes());
    out.extend(half(minimum_unit).to_le_bytes());
    // The upper two bits of the last four are above the first four.
    out.extend((0..4).map(|part| scales[part] | (scales[part + 4] >> 4) << 6));
    out.extend((0..4).map(|part| minima[part] | (minima[part + 4] >> 4) << 6));
    out.extend((4..8).map(|part| (scales[part] & 15) | (minima[part] & 15) << 4));
    let nibble = |at: usize| {
        let scale = scale_unit * f32::from(scales[at / 32]);
        let minimum = minimum_unit * f32::from(minima[at / 32]);
        whole(block[at] + minimum, scale).clamp(0, 15) as u8
    };
    for first in (0..SUPERBLOCK).step_by(64) {
        out.extend((first..first + 32).map(|at| nibble(at) | nibble(at + 32) << 4));
    }
}

/// Appends a block of `Q6_K`: for each 16 numbers a scale of 8 bits.
pub(super) fn six_bits(block: &[f32], out: &mut Vec<u8>) {
    let mut scales = [0.0_f32; 16];
    for (part, numbers) in block.chunks_exact(16).enumerate() {
        let highest = numbers
            .iter()
            .fold(0.0_f32, |high, number| high.max(number.abs()));
        scales[part] = highest / 31.0;
    }
    let unit = scales.iter().fold(0.0_f32, |high, scale| high.max(*scale)) / 127.0;
    let scales = scales.map(|scale| whole(scale, unit).clamp(0, 127) as u8);
    let number = |at: usize| {
        let scale = unit * f32::from(scales[at / 16]);
        (whole(block[at], scale).clamp(-32, 31) + 32) as u8
    };
    let sides = [0, SUPERBLOCK / 2];
    for side in sides {
        out.extend((side..side + 64).map(|at| (number(at) & 15) | (number(at + 64) & 15) << 4));
    }
    for side in sides {
        let high = |at: usize, place: usize| (number(at + 32 * place) >> 4) << (2 * place);
        out.extend(
            (side..side + 32).map(|at| (0..4).fold(0, |byte, place| byte | high(at, place))),
        );
    }
    out.extend(scales);
    out.extend(half(unit).to_le_bytes());
}

/// How many units make a number, as the next whole number.
fn whole(number: f32, unit: f32) -> i32 {
    if unit == 0.0 {
        0
    } else {
        (number / unit).round() as i32
    }
}
