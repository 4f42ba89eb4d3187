//! Random weights.

use crate::gguf::{ALIGNMENT, Gguf, Tensor};

const F32: u32 = 0;
const I64: u32 = 27;

/// Numbers that a tensor is filled with.
#[derive(Clone, Copy)]
pub enum Fill {
    /// The number 1 for every element.
    Ones,
    /// Random numbers with this standard deviation.
    Random(f32),
    /// Random numbers that keep the length of a vector multiplied by them about the same.
    Matrix,
    /// Negative random numbers near zero, which make slow decays.
    Decay,
    /// A matrix that picks the elements of a vector from this index on, scaled by this factor.
    Part(u64, f32),
    /// The random embeddings of [`EMBEDDINGS`], moved by this number of tokens, with this standard
    /// deviation.
    Earlier(u64, f32),
    /// The integers from 0 on, as 64-bit integers.
    Places,
}

/// Description of a tensor that [`Gguf::add`] fills.
pub struct Weights {
    /// Name of the tensor in the file.
    pub name: String,
    /// Lengths of its dimensions, the fastest-running first.
    pub shape: Vec<u64>,
    /// Numbers that the tensor is filled with.
    pub fill: Fill,
}

/// Name of the tensor with the embeddings of tokens.
pub const EMBEDDINGS: &str = "token_embd.weight";

/// Describes a vector of `length` ones.
pub fn ones(name: &str, length: u64) -> Weights {
    Weights {
        name: name.to_owned(),
        shape: vec![length],
        fill: Fill::Ones,
    }
}

/// Describes a random matrix whose products with vectors of deviation 1 have this deviation.
pub fn matrix(name: &str, shape: &[u64], deviation: f32) -> Weights {
    Weights {
        name: name.to_owned(),
        shape: shape.to_vec(),
        fill: Fill::Random(deviation / (shape[0] as f32).sqrt()),
    }
}

impl Weights {
    fn numbers(&self) -> Vec<f32> {
        let count: u64 = self.shape.iter().product();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let name = match self.fill {
            Fill::Earlier(..) => EMBEDDINGS,
            _ => &self.name,
        };
        for byte in name.bytes() {
            random.0 = (random.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let columns = self.shape[0];
        let mut number = |index: u64| match self.fill {
            Fill::Ones => 1.0,
            Fill::Random(deviation) | Fill::Earlier(_, deviation) => deviation * random.normal(),
            Fill::Matrix => random.normal() / (columns as f32).sqrt(),
            Fill::Decay => -0.05 - 0.2 * random.normal().abs(),
            Fill::Part(from, scale) if index % columns == from + index / columns => scale,
            Fill::Part(..) => 0.0,
            Fill::Places => index as f32,
        };
        let mut numbers: Vec<f32> = (0..count).map(&mut number).collect();
        if let Fill::Earlier(places, _) = self.fill {
            numbers.rotate_right((places * columns) as usize);
        }
        numbers
    }
}

impl Gguf {
    /// Appends tensors with their data, each padded to [`ALIGNMENT`].
    pub fn add(&mut self, weights: &[Weights]) {
        for weights in weights {
            let numbers = weights.numbers().into_iter();
            let offset = self.data.len() as u64;
            let kind = if let Fill::Places = weights.fill {
                let bytes = |number| (number as i64).to_le_bytes();
                self.data.extend(numbers.flat_map(bytes));
                I64
            } else {
                self.data.extend(numbers.flat_map(f32::to_le_bytes));
                F32
            };
            let padded = self.data.len().next_multiple_of(ALIGNMENT);
            self.data.resize(padded, 0);
            self.tensors.push(Tensor {
                name: weights.name.clone(),
                dimensions: weights.shape.clone(),
                kind,
                offset,
            });
        }
    }
}

struct Random(u64);

impl Random {
    /// Returns a random number from 0 to 1.
    fn even(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1_u64 << 24) as f32
    }

    /// Returns a random number of a nearly normal distribution.
    fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.even()).sum::<f32>() - 6.0
    }
}
