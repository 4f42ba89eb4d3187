//! Made-up weights in the formats of files, their values in f64, and matmuls of them.
#![allow(dead_code, reason = "each test binary uses a part")]

use graphmill_kernels::{Format, Kernels, Matmul};

/// Pseudorandom numbers (`SplitMix64`).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Between -1 and 1.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / 8_388_608.0 - 1.0
    }

    /// About normal.
    pub(crate) fn normal(&mut self) -> f32 {
        (0..4).map(|_| self.unit()).sum::<f32>() * 0.87
    }
}

/// A matrix of weights as in a file, and activations.
pub(crate) struct Case {
    pub(crate) format: Format,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) tokens: usize,
    pub(crate) weights: Vec<u8>,
    pub(crate) activations: Vec<f32>,
}

impl Case {
    /// Random bits for weights, scales between 2^-10 and 2^-6 of either sign, normal activations
    /// with some large ones.
    pub(crate) fn random(
        format: Format,
        rows: usize,
        cols: usize,
        tokens: usize,
        seed: u64,
    ) -> Self {
        let mut numbers = Numbers(seed);
        let weights = (0..rows * cols / format.block())
            .flat_map(|_| random_block(format, &mut numbers))
            .collect();
        let activations = (0..tokens * cols)
            .map(|_| {
                numbers.normal()
                    * if numbers.bits().is_multiple_of(50) {
                        20.0
                    } else {
                        1.0
                    }
            })
            .collect();
        Self {
            format,
            rows,
            cols,
            tokens,
            weights,
            activations,
        }
    }

    /// The same weights, and the last activations.
    pub(crate) fn last_tokens(&self, tokens: usize) -> Self {
        let activations = self.activations[(self.tokens - tokens) * self.cols..].to_vec();
        Self {
            weights: self.weights.clone(),
            activations,
            tokens,
            ..*self
        }
    }

    /// The weights that the file means, row after row.
    pub(crate) fn meaning(&self) -> Vec<f64> {
        self.weights
            .chunks_exact(self.format.block_bytes())
            .flat_map(|block| meaning(self.format, block))
            .collect()
    }

    /// The matmul in f64, token after token.
    pub(crate) fn exact(&self) -> Vec<f64> {
        let weights = self.meaning();
        self.activations
            .chunks_exact(self.cols)
            .flat_map(|activation| {
                weights
                    .chunks_exact(self.cols)
                    .map(|row| {
                        row.iter()
                            .zip(activation)
                            .map(|(weight, number)| weight * f64::from(*number))
                            .sum()
                    })
                    .collect::<Vec<f64>>()
            })
            .collect()
    }

    /// Asserts that no result is further from the exact one than rounding each activation to 8 bits
    /// permits.
    pub(crate) fn assert_close(&self, ours: &[f32], exact: &[f64], name: &str) {
        let weights = self.meaning();
        for (token, activation) in self.activations.chunks_exact(self.cols).enumerate() {
            for (row, weights) in weights.chunks_exact(self.cols).enumerate() {
                let bound: f64 = weights
                    .chunks(32)
                    .zip(activation.chunks(32))
                    .map(|(weights, activation)| {
                        let largest = activation
                            .iter()
                            .fold(0f64, |largest, number| largest.max(f64::from(number.abs())));
                        weights.iter().map(|weight| weight.abs()).sum::<f64>()
                            * largest
                            * (0.501 / 127.0)
                    })
                    .sum();
                let at = token * self.rows + row;
                let error = (f64::from(ours[at]) - exact[at]).abs();
                assert!(
                    error <= bound,
                    "{name} {:?} token {token} row {row}: {} for {}, bound {bound}",
                    self.format,
                    ours[at],
                    exact[at]
                );
            }
        }
    }
}

/// A case multiplied with one choice of instructions, in `parts` parts.
pub(crate) fn matmul(kernels: Kernels, case: &Case, parts: usize) -> Vec<f32> {
    let Case {
        format,
        rows,
        cols,
        tokens,
        ..
    } = *case;
    let mut panels = vec![
        0;
        kernels
            .packed_bytes(format, rows, cols)
            .expect("a shape with kernels")
    ];
    kernels.pack(format, cols, &case.weights, &mut panels);
    let mut activations = vec![0; tokens * kernels.activation_bytes(format, cols)];
    kernels.quantize(format, cols, &case.activations, &mut activations);
    let mut out = vec![f32::NAN; rows * tokens];
    let matmul = Matmul {
        format,
        rows,
        cols,
        panels: &panels,
        tokens,
        activations: &activations,
    };
    kernels.multiply_all(&matmul, &mut out, parts);
    out
}

/// A case multiplied with every choice of instructions.
pub(crate) fn matmuls(case: &Case) -> Vec<(Kernels, Vec<f32>)> {
    Kernels::all()
        .into_iter()
        .map(|kernels| (kernels, matmul(kernels, case, 1)))
        .collect()
}

pub(crate) fn assert_same(ours: &[f32], theirs: &[f32], name: &str) {
    for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert!(
            ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()),
            "{name}: {ours} is not {theirs} at {at}"
        );
    }
    assert_eq!(ours.len(), theirs.len());
}

/// Bits of a binary16 number between 2^-10 and 2^-6, of either sign.
pub(crate) fn scale(numbers: &mut Numbers) -> [u8; 2] {
    let bits = numbers.bits();
    let exponent = 5 + (bits >> 16) % 4;
    ((bits as u16 & 0x83ff) | ((exponent as u16) << 10)).to_le_bytes()
}

fn random_block(format: Format, numbers: &mut Numbers) -> Vec<u8> {
    if format == Format::Bf16 {
        let bits = (numbers.normal() * 0.01).to_bits();
        return bits.to_le_bytes()[2..].to_vec();
    }
    let mut block: Vec<u8> = (0..format.block_bytes())
        .map(|_| numbers.bits() as u8)
        .collect();
    for at in scales(format) {
        block[*at..at + 2].copy_from_slice(&scale(numbers));
    }
    if format == Format::MxFp4 {
        block[0] = 118 + block[0] % 4;
    }
    block
}

/// Where a block has its 16-bit values, binary16 except for `Bf16`.
pub(crate) fn scales(format: Format) -> &'static [usize] {
    match format {
        Format::Q8_0
        | Format::Q4_0
        | Format::Q5_0
        | Format::Iq4Nl
        | Format::Iq4Xs
        | Format::F16
        | Format::Bf16 => &[0],
        Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
        Format::MxFp4 => &[],
        Format::Q2K => &[80, 82],
        Format::Q3K => &[108],
        Format::Q6K => &[208],
    }
}

fn half(bytes: &[u8]) -> f64 {
    let bits = u16::from_le_bytes([bytes[0], bytes[1]]);
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

/// The six-bit scale and minimum of a 32-column part of `Q4_K` and `Q5_K`.
fn scale_and_minimum(packed: &[u8], part: usize) -> (f64, f64) {
    let (scale, minimum) = if part < 4 {
        (packed[part] & 63, packed[part + 4] & 63)
    } else {
        (
            (packed[part + 4] & 15) | (packed[part - 4] >> 6) << 4,
            (packed[part + 4] >> 4) | (packed[part] >> 6) << 4,
        )
    };
    (f64::from(scale), f64::from(minimum))
}

/// The tables of `MXFP4` and `IQ4`.
const POWERS: [f64; 16] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
];
const UNEVEN: [f64; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0,
    89.0, 113.0,
];

/// The scale of 16 columns of `Q3_K`.
fn scale_of_16(packed: &[u8], part: usize) -> f64 {
    let low = packed[part % 8] >> (if part < 8 { 0 } else { 4 }) & 15;
    let high = packed[8 + part % 4] >> (part / 4 * 2) & 3;
    f64::from(low | high << 4) - 32.0
}

/// The weights that a block of a file means.
pub(crate) fn meaning(format: Format, block: &[u8]) -> Vec<f64> {
    let nibble = |bytes: &[u8], column: usize| {
        let byte = bytes[column / 64 * 32 + column % 32];
        if column % 64 < 32 {
            byte & 15
        } else {
            byte >> 4
        }
    };
    // Columns of a block of 32 share bytes by halves.
    let half_nibble = |bytes: &[u8], column: usize| {
        let byte = bytes[column % 16];
        if column < 16 { byte & 15 } else { byte >> 4 }
    };
    let five_bits = |fifths: &[u8], bytes: &[u8], column: usize| {
        let fifth = fifths[column / 8] >> (column % 8) & 1;
        f64::from(half_nibble(bytes, column) | fifth << 4)
    };
    match format {
        Format::Q5_0 => (0..32)
            .map(|column| half(block) * (five_bits(&block[2..6], &block[6..], column) - 16.0))
            .collect(),
        Format::Q5_1 => (0..32)
            .map(|column| {
                half(block) * five_bits(&block[4..8], &block[8..], column) + half(&block[2..])
            })
            .collect(),
        Format::MxFp4 => (0..32)
            .map(|column| {
                let number = POWERS[usize::from(half_nibble(&block[1..], column))];
                2f64.powi(i32::from(block[0]) - 127) * number
            })
            .collect(),
        Format::Iq4Nl => (0..32)
            .map(|column| half(block) * UNEVEN[usize::from(half_nibble(&block[2..], column))])
            .collect(),
        Format::Iq4Xs => (0..256)
            .map(|column| {
                let part = column / 32;
                let low = block[4 + part / 2] >> (part % 2 * 4) & 15;
                let high = u16::from_le_bytes([block[2], block[3]]) >> (2 * part) & 3;
                let scale = f64::from(u16::from(low) | high << 4) - 32.0;
                let bits = half_nibble(&block[8 + 16 * part..], column % 32);
                half(block) * scale * UNEVEN[usize::from(bits)]
            })
            .collect(),
        Format::Q2K => (0..256)
            .map(|column| {
                let bits = block[16 + column / 128 * 32 + column % 32] >> (column / 32 % 4 * 2) & 3;
                let of_part = block[column / 16];
                half(&block[80..]) * f64::from(of_part & 15) * f64::from(bits)
                    - half(&block[82..]) * f64::from(of_part >> 4)
            })
            .collect(),
        Format::Q3K => (0..256)
            .map(|column| {
                let low = block[32 + column / 128 * 32 + column % 32] >> (column / 32 % 4 * 2) & 3;
                let high = block[column % 32] >> (column / 32) & 1;
                let scale = scale_of_16(&block[96..108], column / 16);
                half(&block[108..]) * scale * (f64::from(low | high << 2) - 4.0)
            })
            .collect(),
        Format::Q8_0 => block[2..]
            .iter()
            .map(|byte| half(block) * f64::from(byte.cast_signed()))
            .collect(),
        Format::Q4_0 => (0..32)
            .map(|column| {
                let byte = block[2 + column % 16];
                half(block) * (f64::from(if column < 16 { byte & 15 } else { byte >> 4 }) - 8.0)
            })
            .collect(),
        Format::Q4K => (0..256)
            .map(|column| {
                let (scale, minimum) = scale_and_minimum(&block[4..16], column / 32);
                half(block) * scale * f64::from(nibble(&block[16..], column))
                    - half(&block[2..]) * minimum
            })
            .collect(),
        Format::Q5K => (0..256)
            .map(|column| {
                let (scale, minimum) = scale_and_minimum(&block[4..16], column / 32);
                let fifth = block[16 + column % 32] >> (column / 32) & 1;
                half(block) * scale * f64::from(nibble(&block[48..], column) | fifth << 4)
                    - half(&block[2..]) * minimum
            })
            .collect(),
        Format::Q6K => (0..256)
            .map(|column| {
                let (side, within) = (column / 128, column % 128);
                let low = block[side * 64 + within % 64];
                let low = if within < 64 { low & 15 } else { low >> 4 };
                let high = block[128 + side * 32 + within % 32] >> (within / 32 * 2) & 3;
                let scale = f64::from(block[192 + column / 16].cast_signed());
                half(&block[208..]) * scale * (f64::from(low | high << 4) - 32.0)
            })
            .collect(),
        Format::F16 => vec![half(block)],
        Format::Bf16 => vec![f64::from(f32::from_le_bytes([0, 0, block[0], block[1]]))],
    }
}
