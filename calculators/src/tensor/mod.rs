//! Tensors: numbers or strings in a shape, as clients of KServe's protocol send them.
//!
//! A tensor is checked once, when it arrives. All packets that carry it share its bytes without a
//! copy. Elements are little-endian and in row-major order.

pub mod batch;
mod datatype;
mod json;
mod model;
pub(crate) mod numpy;
mod strings;
mod top_labels;
pub(crate) mod torch;

use std::{fmt, iter};

use bytes::Bytes;

pub use datatype::Datatype;
pub use json::{data_from_json, data_to_json, tensor_from_json};
pub use model::{FileTensor, TensorInfo, TensorModel};
pub use top_labels::{Labels, TopLabels, TopLabelsOptions};

/// First bytes of tensor files, for `NumPy` and `PyTorch`.
pub const FILE_MARKS: [&[u8]; 2] = [numpy::MARK, torch::MARK];

/// Numbers or strings in a shape.
#[derive(Clone, PartialEq, Eq)]
pub struct Tensor {
    datatype: Datatype,
    shape: Box<[usize]>,
    data: Bytes,
}

/// The reason why a datatype, a shape and data do not form a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TensorError(String);

impl TensorError {
    fn too_large(shape: &[usize]) -> Self {
        let shape = shown(shape);
        Self(format!(
            "the shape {shape} has more elements than can be counted"
        ))
    }
}

impl Tensor {
    /// Creates a tensor, if the bytes match the datatype and the shape.
    pub fn new(
        datatype: Datatype,
        shape: impl Into<Box<[usize]>>,
        data: impl Into<Bytes>,
    ) -> Result<Self, TensorError> {
        let (shape, data) = (shape.into(), data.into());
        let elements = elements(&shape)?;
        match datatype.size() {
            Some(size) => {
                let expected = elements
                    .checked_mul(size)
                    .ok_or_else(|| TensorError::too_large(&shape))?;
                if expected != data.len() {
                    let (shape, found) = (shown(&shape), data.len());
                    return Err(TensorError(format!(
                        "{datatype} of shape {shape} has {expected} bytes, but there are {found}"
                    )));
                }
            }
            None => strings::check(&data, elements, &shape)?,
        }
        Ok(Self {
            datatype,
            shape,
            data,
        })
    }

    /// Creates a BYTES tensor of one dimension.
    pub fn from_strings<S: AsRef<[u8]>>(strings: impl IntoIterator<Item = S>) -> Self {
        let (data, count) = strings::join(strings);
        Self {
            datatype: Datatype::Bytes,
            shape: [count].into(),
            data,
        }
    }

    /// Creates a tensor of one dimension with one element, from its little-endian bytes.
    ///
    /// # Panics
    /// If the element does not have the size of the datatype.
    pub fn scalar(datatype: Datatype, element: &[u8]) -> Self {
        assert_eq!(datatype.size(), Some(element.len()));
        Self {
            datatype,
            shape: [1].into(),
            data: Bytes::copy_from_slice(element),
        }
    }

    /// Returns the type of its elements.
    pub fn datatype(&self) -> Datatype {
        self.datatype
    }

    /// Returns its dimensions, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns its elements: little-endian, row by row. In a BYTES tensor, each element comes after
    /// its length, a four-byte integer.
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// Returns its elements as [`data`](Self::data) does, and drops the shape.
    pub fn into_data(self) -> Bytes {
        self.data
    }

    /// Returns the number of its elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Iterates over the elements of a BYTES tensor. Other tensors have none.
    pub fn strings(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest: &[u8] = match self.datatype {
            Datatype::Bytes => &self.data,
            _ => &[],
        };
        iter::from_fn(move || {
            let (element, behind) = strings::split(rest)?;
            rest = behind;
            Some(element)
        })
    }
}

/// Returns the number of elements of a shape.
pub fn elements(shape: &[usize]) -> Result<usize, TensorError> {
    // A tensor with a dimension of 0 is empty, however large its other dimensions are.
    if shape.contains(&0) {
        return Ok(0);
    }
    let product = shape
        .iter()
        .try_fold(1_usize, |product, length| product.checked_mul(*length));
    product.ok_or_else(|| TensorError::too_large(shape))
}

/// Converts dimensions from a client to a shape. A negative dimension is an error.
pub fn shape_of(dimensions: &[i64]) -> Result<Box<[usize]>, TensorError> {
    let lengths = dimensions.iter().map(|length| usize::try_from(*length));
    lengths.collect::<Result<_, _>>().map_err(|_| {
        let shape = shown(dimensions);
        TensorError(format!("the shape {shape} has a dimension below 0"))
    })
}

/// Maximum number of dimensions that a message shows.
const SHOWN_DIMENSIONS: usize = 8;

/// Writes a shape in text form, shortened if it has many dimensions.
pub fn shown<D: fmt::Display>(shape: &[D]) -> String {
    let mut parts: Vec<String> = shape
        .iter()
        .take(SHOWN_DIMENSIONS)
        .map(D::to_string)
        .collect();
    if shape.len() > SHOWN_DIMENSIONS {
        parts.push("..".to_owned());
    }
    format!("[{}]", parts.join(", "))
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.datatype, shown(&self.shape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_to_be_those_of_the_shape() {
        let tensor = |shape: &[usize], bytes| Tensor::new(Datatype::Fp32, shape, vec![0; bytes]);
        assert!(tensor(&[2, 3], 24).is_ok());
        assert!(tensor(&[], 4).is_ok(), "a scalar");
        assert!(tensor(&[0, usize::MAX, usize::MAX], 0).is_ok());
        assert_eq!(
            tensor(&[2, 3], 23).expect_err("short").to_string(),
            "FP32 of shape [2, 3] has 24 bytes, but there are 23"
        );
        for shape in [[usize::MAX, 2], [1 << 40, 1 << 40], [usize::MAX, 1]] {
            let error = tensor(&shape, 8).expect_err("too many");
            let message = error.to_string();
            assert!(
                message.contains("more elements than can be counted"),
                "{message}"
            );
        }
    }

    #[test]
    fn strings_have_their_lengths_before_them() {
        let tensor = Tensor::from_strings(["a", "", "bcd"]);
        assert_eq!(tensor.shape(), [3]);
        let strings: Vec<&[u8]> = tensor.strings().collect();
        assert_eq!(strings, [&b"a"[..], b"", b"bcd"]);
        let again = |data: &[u8], shape: &[usize]| {
            let data = Bytes::copy_from_slice(data);
            Tensor::new(Datatype::Bytes, shape, data).map_err(|error| error.to_string())
        };
        assert_eq!(again(tensor.data(), &[3]).as_ref(), Ok(&tensor));
        for (data, shape, why) in [
            (&[1, 0, 0, 0][..], &[1][..], "element 0 of the BYTES ends"),
            (&[1, 0, 0], &[1], "element 0 of the BYTES ends"),
            (
                &[255, 255, 255, 255, 1],
                &[1],
                "element 0 of the BYTES ends",
            ),
            (&[0, 0, 0, 0], &[2], "has 2 elements, but there are 1"),
            (
                &[0, 0, 0, 0, 0, 0, 0, 0],
                &[1],
                "has 1 elements, but there are 2",
            ),
            (&[0, 0, 0, 0], &[0], "has 0 elements, but there are 1"),
        ] {
            let error = again(data, shape).expect_err("wrong");
            assert!(error.contains(why), "{error}");
        }
    }
}
