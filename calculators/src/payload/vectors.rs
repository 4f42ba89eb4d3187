//! Prompts of vectors in place of tokens.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::json;

use crate::tensor::{Datatype, Tensor};

/// A prompt of vectors in place of tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptVectors {
    field: &'static str,
    numbers: Arc<[f32]>,
    width: Option<usize>,
}

// All numbers are finite.
impl Eq for PromptVectors {}

impl Serialize for PromptVectors {
    /// Writes their number and width in place of the vectors, which are many.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        json!({ "numbers": self.numbers.len(), "width": self.width }).serialize(to)
    }
}

impl PromptVectors {
    /// Reads the rows of a tensor from a field of a request. A tensor of one dimension has them one
    /// after the other. Of more than two dimensions, all but the last two must have length 1.
    ///
    /// # Errors
    /// The fault, in words that follow the name of the field.
    pub fn new(field: &'static str, tensor: &Tensor) -> Result<Self, String> {
        let mut shape = tensor.shape();
        while let [1, inner @ ..] = shape
            && inner.len() >= 2
        {
            shape = inner;
        }
        let width = match *shape {
            [_] => None,
            [_, width] => Some(width),
            _ => {
                let count = tensor.shape().len();
                return Err(format!("has {count} dimensions: expected rows of numbers"));
            }
        };
        let numbers = read_numbers(tensor)?;
        if numbers.is_empty() {
            return Err("has no numbers".to_owned());
        }
        match numbers.iter().position(|number| !number.is_finite()) {
            Some(at) => Err(format!("has a number that is not finite, at {at}")),
            None => Ok(Self {
                field,
                numbers,
                width,
            }),
        }
    }

    /// Returns the field of the request that has the vectors.
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// Returns all numbers, vector by vector. They are finite.
    pub fn numbers(&self) -> &Arc<[f32]> {
        &self.numbers
    }

    /// Returns the length of each vector; `None` if the request does not set it.
    pub fn width(&self) -> Option<usize> {
        self.width
    }
}

fn read_numbers(tensor: &Tensor) -> Result<Arc<[f32]>, String> {
    let data = tensor.data();
    macro_rules! numbers {
        ($number:expr) => {
            data.as_chunks().0.iter().map($number).collect()
        };
    }
    Ok(match tensor.datatype() {
        Datatype::Fp16 => numbers!(|bytes| read_half(u16::from_le_bytes(*bytes))),
        Datatype::Bf16 => {
            numbers!(|bytes| f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16))
        }
        Datatype::Fp32 => numbers!(|bytes| f32::from_le_bytes(*bytes)),
        Datatype::Fp64 => numbers!(|bytes| f64::from_le_bytes(*bytes) as f32),
        other => return Err(format!("has elements of {other}: expected floats")),
    })
}

/// Reads a half-precision number. NaN becomes infinite.
fn read_half(bits: u16) -> f32 {
    let (exponent, fraction) = (bits >> 10 & 0x1f, bits & 0x3ff);
    let size = match exponent {
        0 => f32::from(fraction) * 2f32.powi(-24),
        0x1f => f32::INFINITY,
        _ => f32::from(fraction | 0x400) * 2f32.powi(i32::from(exponent) - 25),
    };
    if bits >> 15 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(datatype: Datatype, shape: &[usize], data: &[u8]) -> Result<PromptVectors, String> {
        let tensor = Tensor::new(datatype, shape, data.to_vec()).expect("a tensor");
        PromptVectors::new("prompt_embeds", &tensor)
    }

    #[test]
    fn floats_of_each_size_are_read() {
        for (datatype, data) in [
            (
                Datatype::Fp64,
                [1.5_f64, -0.25].map(f64::to_le_bytes).concat(),
            ),
            (
                Datatype::Fp32,
                [1.5_f32, -0.25].map(f32::to_le_bytes).concat(),
            ),
            (
                Datatype::Bf16,
                [0x3fc0_u16, 0xbe80].map(u16::to_le_bytes).concat(),
            ),
            (
                Datatype::Fp16,
                [0x3e00_u16, 0xb400].map(u16::to_le_bytes).concat(),
            ),
        ] {
            let vectors = read(datatype, &[2, 1], &data).expect("vectors");
            assert!(
                vectors.numbers().iter().eq(&[1.5_f32, -0.25]),
                "{vectors:?}"
            );
        }
        for (bits, number) in [
            (0, 0.0),
            (1, 5.960_464_5e-8),
            (0x3ff, 6.097_555e-5),
            (0x7bff, 65504.0),
        ] {
            assert!(
                (read_half(bits) - number).abs() <= number * 1e-6,
                "{bits:x}"
            );
        }
        for bits in [0x7c00_u16, 0xfc00, 0x7e00] {
            assert!(read(Datatype::Fp16, &[1], &bits.to_le_bytes()).is_err());
        }
    }

    #[test]
    fn a_shape_says_the_rows() {
        for (shape, width) in [
            (&[6][..], None),
            (&[2, 3], Some(3)),
            (&[1, 6], Some(6)),
            (&[1, 2, 3], Some(3)),
            (&[1, 1, 6, 1], Some(1)),
        ] {
            let vectors = read(Datatype::Fp32, shape, &[0; 24]).expect("vectors");
            assert_eq!(vectors.width(), width, "{shape:?}");
        }
        for (datatype, shape, bytes, why) in [
            (Datatype::Fp32, &[2, 3, 1][..], 24, "3 dimensions"),
            (Datatype::Fp32, &[], 4, "0 dimensions"),
            (Datatype::Fp32, &[0, 3], 0, "no numbers"),
            (Datatype::Int32, &[2], 8, "expected floats"),
        ] {
            let error = read(datatype, shape, &vec![0; bytes]).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
        let infinite = [0.0_f32, f32::NAN].map(f32::to_le_bytes).concat();
        let error = read(Datatype::Fp32, &[2], &infinite).expect_err("no number");
        assert!(error.contains("not finite, at 1"), "{error}");
    }
}
