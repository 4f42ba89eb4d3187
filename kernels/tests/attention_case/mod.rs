//! Attention with everything that it reads, and the same in 64 bits.

#![allow(unsafe_code, reason = "attention reads and writes through pointers")]

use graphmill_kernels::{Attention, Kernels, Numbers, Rows};

/// Values without a pattern, the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// From -1 to 1.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / 8_388_608.0 - 1.0
    }
}

pub(crate) const UNSEEN: u16 = 0xfc00;

/// Scratch memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "it is read through pointers")] [u8; 64]);

/// Everything that attention reads, by stream, token or cell, head and number.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) kernels: Kernels,
    pub(crate) tokens: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) cells: usize,
    pub(crate) streams: usize,
    pub(crate) key_size: usize,
    pub(crate) value_size: usize,
    pub(crate) numbers: Numbers,
    pub(crate) queries: Vec<f32>,
    pub(crate) keys: Vec<u8>,
    pub(crate) values: Vec<u8>,
    /// By stream, token and cell.
    pub(crate) mask: Vec<u16>,
    pub(crate) sinks: Option<Vec<f32>>,
    pub(crate) cap: f32,
    pub(crate) max_bias: f32,
}

pub(crate) fn half(value: f32) -> u16 {
    // Halves of the tests have few bits, so nothing is rounded.
    let bits = value.to_bits();
    if value == 0.0 {
        return 0;
    }
    let exponent = (bits >> 23 & 0xff) as i32 - 112;
    assert!((1..31).contains(&exponent), "{value}");
    (bits >> 16 & 0x8000) as u16 | (exponent as u16) << 10 | (bits >> 13 & 0x3ff) as u16
}

pub(crate) fn from_half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    match exponent {
        0 => sign * fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        _ => sign * (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

pub(crate) fn row_bytes(numbers: Numbers, count: usize) -> usize {
    match numbers {
        Numbers::F32 => count * 4,
        Numbers::F16 | Numbers::Bf16 => count * 2,
        Numbers::Q8_0 => count / 32 * 34,
        Numbers::Q5_1 => count / 32 * 24,
        Numbers::Q5_0 => count / 32 * 22,
        Numbers::Q4_1 => count / 32 * 20,
        Numbers::Q4_0 => count / 32 * 18,
    }
}

/// Bytes of the scale, the least number and the fifth bits before the integers of a block.
fn before_integers(numbers: Numbers) -> (usize, usize, usize) {
    match numbers {
        Numbers::Q5_1 => (2, 2, 4),
        Numbers::Q5_0 => (2, 0, 4),
        Numbers::Q4_1 => (2, 2, 0),
        _ => (2, 0, 0),
    }
}

/// Rows of one kind, and what they stand for.
pub(crate) fn encode(numbers: Numbers, rows: usize, size: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..rows {
        match numbers {
            Numbers::F32 => (0..size).for_each(|_| bytes.extend(random.unit().to_le_bytes())),
            Numbers::F16 => (0..size).for_each(|_| {
                let value = (random.bits() % 2000) as f32 / 1024.0 - 1.0;
                bytes.extend(half(value).to_le_bytes());
            }),
            Numbers::Bf16 => (0..size)
                .for_each(|_| bytes.extend(((random.unit().to_bits() >> 16) as u16).to_le_bytes())),
            Numbers::Q8_0 => (0..size / 32).for_each(|_| {
                bytes.extend(
                    half(1.0 / 128.0 + (random.bits() % 64) as f32 / 16384.0).to_le_bytes(),
                );
                (0..32).for_each(|_| bytes.push(random.bits() as u8));
            }),
            Numbers::Q5_1 | Numbers::Q5_0 | Numbers::Q4_1 | Numbers::Q4_0 => {
                (0..size / 32).for_each(|_| {
                    let (_, least, fifth) = before_integers(numbers);
                    let scale = 1.0 / 16.0 + (random.bits() % 64) as f32 / 1024.0;
                    bytes.extend(half(scale).to_le_bytes());
                    (0..least / 2).for_each(|_| {
                        let least = -0.5 - (random.bits() % 64) as f32 / 64.0;
                        bytes.extend(half(least).to_le_bytes());
                    });
                    (0..fifth + 16).for_each(|_| bytes.push(random.bits() as u8));
                });
            }
        }
    }
    bytes
}

pub(crate) fn decode(numbers: Numbers, row: &[u8]) -> Vec<f64> {
    let short = |pair: &[u8]| u16::from_le_bytes([pair[0], pair[1]]);
    match numbers {
        Numbers::F32 => row
            .chunks_exact(4)
            .map(|four| f64::from(f32::from_le_bytes([four[0], four[1], four[2], four[3]])))
            .collect(),
        Numbers::F16 => row
            .chunks_exact(2)
            .map(|pair| from_half(short(pair)))
            .collect(),
        Numbers::Bf16 => row
            .chunks_exact(2)
            .map(|pair| f64::from(f32::from_bits(u32::from(short(pair)) << 16)))
            .collect(),
        Numbers::Q8_0 => row
            .chunks_exact(34)
            .flat_map(|block| {
                let scale = from_half(short(block));
                block[2..]
                    .iter()
                    .map(move |byte| scale * f64::from(byte.cast_signed()))
            })
            .collect(),
        Numbers::Q5_1 | Numbers::Q5_0 | Numbers::Q4_1 | Numbers::Q4_0 => {
            let (scale, least, fifth) = before_integers(numbers);
            row.chunks_exact(row_bytes(numbers, 32))
                .flat_map(|block| {
                    let zero = match (least, fifth) {
                        (0, 0) => -8.0 * from_half(short(block)),
                        (0, _) => -16.0 * from_half(short(block)),
                        _ => from_half(short(&block[scale..])),
                    };
                    (0..32).map(move |index| {
                        let byte = block[scale + least + fifth + index % 16];
                        let four = if index < 16 { byte & 15 } else { byte >> 4 };
                        let bits = block[scale + least..][index / 8];
                        let five = if fifth > 0 {
                            bits >> (index % 8) & 1
                        } else {
                            0
                        };
                        from_half(short(block)) * f64::from(four + 16 * five) + zero
                    })
                })
                .collect()
        }
    }
}

impl Case {
    /// A prompt: each token sees the cells up to its own, the last of all.
    pub(crate) fn prompt(
        kernels: Kernels,
        numbers: Numbers,
        tokens: usize,
        cells: usize,
        seed: u64,
    ) -> Self {
        let mut random = Random(seed);
        let (heads, kv_heads, streams, key_size, value_size) = (6, 2, 2, 64, 64);
        let queries = (0..streams * tokens * heads * key_size).map(|_| 2.0 * random.unit());
        let queries = queries.collect();
        let mut case = Self {
            kernels,
            tokens,
            heads,
            kv_heads,
            cells,
            streams,
            key_size,
            value_size,
            numbers,
            queries,
            keys: encode(numbers, streams * cells * kv_heads, key_size, &mut random),
            values: encode(numbers, streams * cells * kv_heads, value_size, &mut random),
            mask: vec![0; streams * tokens * cells],
            sinks: None,
            cap: 0.0,
            max_bias: 0.0,
        };
        case.see(|_, token, cell| cell <= cells - tokens + token);
        case
    }

    /// Says which cells tokens see, by stream, token and cell.
    pub(crate) fn see(&mut self, sees: impl Fn(usize, usize, usize) -> bool) {
        for (index, number) in self.mask.iter_mut().enumerate() {
            let (row, cell) = (index / self.cells, index % self.cells);
            let visible = sees(row / self.tokens, row % self.tokens, cell);
            *number = if visible { 0 } else { UNSEEN };
        }
    }

    /// Another number of heads and other sizes.
    pub(crate) fn shape(
        self,
        heads: usize,
        kv_heads: usize,
        key_size: usize,
        value_size: usize,
    ) -> Self {
        let mut random = Random(9);
        let rows = self.streams * self.cells * kv_heads;
        let queries = self.streams * self.tokens * heads * key_size;
        Self {
            heads,
            kv_heads,
            key_size,
            value_size,
            queries: (0..queries).map(|_| random.unit()).collect(),
            keys: encode(self.numbers, rows, key_size, &mut random),
            values: encode(self.numbers, rows, value_size, &mut random),
            ..self
        }
    }

    /// Some of the tokens alone, with all cells.
    pub(crate) fn only(&self, tokens: std::ops::Range<usize>) -> Self {
        let some = |all: usize, row: usize| -> Vec<usize> {
            let of_stream =
                |stream| (stream * all + tokens.start) * row..(stream * all + tokens.end) * row;
            (0..self.streams).flat_map(of_stream).collect()
        };
        let queries = some(self.tokens, self.heads * self.key_size);
        let mask = some(self.tokens, self.cells);
        Self {
            tokens: tokens.len(),
            queries: queries
                .into_iter()
                .map(|index| self.queries[index])
                .collect(),
            mask: mask.into_iter().map(|index| self.mask[index]).collect(),
            ..self.clone()
        }
    }

    pub(crate) fn scale(&self) -> f32 {
        1.0 / (self.key_size as f32).sqrt()
    }

    pub(crate) fn compute(&self, threads: usize) -> Vec<f32> {
        let mut out = vec![f32::NAN; self.streams * self.tokens * self.heads * self.value_size];
        let rows = |first: *const u8, row: usize, heads: usize, rows: usize| Rows {
            first,
            strides: [heads * row, row, rows * heads * row],
        };
        let key = row_bytes(self.numbers, self.key_size);
        let value = row_bytes(self.numbers, self.value_size);
        let attention = Attention {
            tokens: self.tokens,
            heads: self.heads,
            kv_heads: self.kv_heads,
            cells: self.cells,
            streams: self.streams,
            key_size: self.key_size,
            value_size: self.value_size,
            queries: rows(
                self.queries.as_ptr().cast(),
                self.key_size * 4,
                self.heads,
                self.tokens,
            ),
            keys: rows(self.keys.as_ptr(), key, self.kv_heads, self.cells),
            key_numbers: self.numbers,
            values: rows(self.values.as_ptr(), value, self.kv_heads, self.cells),
            value_numbers: self.numbers,
            mask: Some(rows(
                self.mask.as_ptr().cast(),
                self.cells * 2,
                1,
                self.tokens,
            )),
            sinks: self.sinks.as_ref().map_or(std::ptr::null(), Vec::as_ptr),
            scale: self.scale(),
            cap: self.cap,
            max_bias: self.max_bias,
            out: out.as_mut_ptr(),
        };
        assert!(attention.fits());
        let mut scratch = vec![Line([0; 64]); attention.scratch_bytes(threads) / 64];
        let scratch: *mut u8 = scratch.as_mut_ptr().cast();
        // SAFETY: all is as long as it says, and parts are computed one after the other.
        unsafe {
            for part in 0..attention.parts(threads) {
                attention.compute(self.kernels, part, threads, scratch);
            }
            for index in 0..attention.merges(threads) {
                attention.merge(self.kernels, index, threads, scratch);
            }
        }
        out
    }

    /// The result of a row, and the same with all values without their signs: what errors are
    /// measured by.
    pub(crate) fn exact(&self, stream: usize, token: usize, head: usize) -> Vec<(f64, f64)> {
        let kv_head = head / (self.heads / self.kv_heads);
        let query = ((stream * self.tokens + token) * self.heads + head) * self.key_size;
        let query = &self.queries[query..][..self.key_size];
        let cell_row = |bytes: &[u8], cell: usize, size: usize| {
            let row = row_bytes(self.numbers, size);
            let index = (stream * self.cells + cell) * self.kv_heads + kv_head;
            decode(self.numbers, &bytes[index * row..][..row])
        };
        let slope = if self.max_bias > 0.0 {
            // Heads of the tests are powers of two where this counts.
            2f64.powf(-f64::from(self.max_bias) * (head + 1) as f64 / self.heads as f64)
        } else {
            1.0
        };
        let score = |cell: usize| {
            let key = cell_row(&self.keys, cell, self.key_size);
            let matmul = query
                .iter()
                .zip(key)
                .map(|(query, key)| f64::from(*query) * key);
            let mut score = matmul.sum::<f64>() * f64::from(self.scale());
            if self.cap > 0.0 {
                score = f64::from(self.cap) * (score / f64::from(self.cap)).tanh();
            }
            score + slope * from_half(self.mask[(stream * self.tokens + token) * self.cells + cell])
        };
        let seen = (0..self.cells)
            .filter(|cell| self.mask[(stream * self.tokens + token) * self.cells + cell] != UNSEEN);
        let scores: Vec<(usize, f64)> = seen.map(|cell| (cell, score(cell))).collect();
        let sink = self.sinks.as_ref().map(|sinks| f64::from(sinks[head]));
        let all = scores.iter().map(|(_, score)| *score).chain(sink);
        let largest = all.fold(f64::NEG_INFINITY, f64::max);
        let mut total = sink.map_or(0.0, |sink| (sink - largest).exp());
        let mut sums = vec![(0.0, 0.0); self.value_size];
        for (cell, score) in scores {
            let weight = (score - largest).exp();
            total += weight;
            let values = cell_row(&self.values, cell, self.value_size);
            for (sum, value) in sums.iter_mut().zip(values) {
                sum.0 += weight * value;
                sum.1 += weight * value.abs();
            }
        }
        let share = |sum: f64| if total == 0.0 { 0.0 } else { sum / total };
        sums.into_iter()
            .map(|(sum, size)| (share(sum), share(size)))
            .collect()
    }

    #[track_caller]
    pub(crate) fn assert_exact(&self) {
        let out = self.compute(2);
        let mut rows = out.chunks_exact(self.value_size);
        for stream in 0..self.streams {
            for token in 0..self.tokens {
                for head in 0..self.heads {
                    let row = rows.next().expect("a row");
                    for (ours, (exact, size)) in row.iter().zip(self.exact(stream, token, head)) {
                        let error = (f64::from(*ours) - exact).abs();
                        assert!(
                            error <= 2e-6 * size,
                            "{ours} instead of {exact}: token {token} of {}, head {head}, {:?}",
                            self.tokens,
                            self.numbers
                        );
                    }
                }
            }
        }
    }
}
