//! Tensors: numbers or strings in a shape, as clients of KServe's protocol send them.
//!
//! A tensor is what came over the wire, checked once: its bytes are shared, not copied, by all
//! packets that carry it. Elements are little-endian and in row-major order.

pub mod batch;
mod datatype;
mod json;
mod model;
pub(crate) mod numpy;
mod strings;
mod top_labels;
pub(crate) mod torch;

use std::fmt;

use bytes::Bytes;

pub use datatype::Datatype;
pub use json::{data_from_json, data_to_json, tensor_from_json};
pub use model::{FileTensor, TensorInfo, TensorModel};
pub use strings::Strings;
pub use top_labels::{Labels, TopLabels, TopLabelsOptions};

/// The bytes that files of tensors begin with: those of `NumPy` and of `PyTorch`.
pub const FILE_MARKS: [&[u8]; 2] = [numpy::MARK, torch::MARK];

/// Numbers or strings in a shape.
#[derive(Clone, PartialEq, Eq)]
pub struct Tensor {
    datatype: Datatype,
    shape: Box<[usize]>,
    data: Bytes,
}

/// Why a datatype, a shape and bytes are no tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// A dimension is below zero.
    #[error("the shape {0} has a dimension below 0")]
    Negative(String),
    /// The shape stands for more elements than there can be.
    #[error("the shape {0} has more elements than can be counted")]
    TooLarge(String),
    /// The bytes are not those of the shape.
    #[error("{datatype} of shape {shape} has {expected} bytes, but there are {found}")]
    WrongLength {
        /// The datatype.
        datatype: Datatype,
        /// The shape, as people write it.
        shape: String,
        /// The bytes of such a tensor.
        expected: usize,
        /// The bytes that there are.
        found: usize,
    },
    /// An element of a BYTES tensor ends behind the data.
    #[error("element {0} of the BYTES ends behind the data")]
    CutShort(usize),
    /// A BYTES tensor has another number of elements than its shape.
    #[error("BYTES of shape {shape} has {expected} elements, but there are {found}")]
    WrongCount {
        /// The shape, as people write it.
        shape: String,
        /// The elements of such a tensor.
        expected: usize,
        /// The elements that there are: of too many, one more than that.
        found: usize,
    },
}

impl Tensor {
    /// A tensor of these bytes, if they are what datatype and shape say.
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
                    .ok_or_else(|| TensorError::TooLarge(shown(&shape)))?;
                if expected != data.len() {
                    return Err(TensorError::WrongLength {
                        datatype,
                        shape: shown(&shape),
                        expected,
                        found: data.len(),
                    });
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

    /// A BYTES tensor of one dimension.
    pub fn of_strings<S: AsRef<[u8]>>(strings: impl IntoIterator<Item = S>) -> Self {
        let (data, count) = strings::join(strings);
        Self {
            datatype: Datatype::Bytes,
            shape: [count].into(),
            data,
        }
    }

    /// A tensor of one dimension with one element, whose little-endian bytes these are.
    ///
    /// # Panics
    /// If an element of the datatype has another size.
    pub fn scalar(datatype: Datatype, element: &[u8]) -> Self {
        assert_eq!(datatype.size(), Some(element.len()));
        Self {
            datatype,
            shape: [1].into(),
            data: Bytes::copy_from_slice(element),
        }
    }

    /// What its elements are.
    pub fn datatype(&self) -> Datatype {
        self.datatype
    }

    /// Its dimensions, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Its elements: little-endian, row by row; of BYTES each behind its length in four bytes.
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// The same, without the shape.
    pub fn into_data(self) -> Bytes {
        self.data
    }

    /// How many elements it has.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The elements of a BYTES tensor; of others none.
    pub fn strings(&self) -> Strings<'_> {
        Strings::new(match self.datatype {
            Datatype::Bytes => &self.data,
            _ => &[],
        })
    }
}

/// How many elements a shape has.
pub fn elements(shape: &[usize]) -> Result<usize, TensorError> {
    // A zero makes it empty, however large the others are.
    if shape.contains(&0) {
        return Ok(0);
    }
    let product = shape
        .iter()
        .try_fold(1_usize, |product, length| product.checked_mul(*length));
    product.ok_or_else(|| TensorError::TooLarge(shown(shape)))
}

/// The dimensions that a client sent.
pub fn shape_of(dimensions: &[i64]) -> Result<Box<[usize]>, TensorError> {
    let lengths = dimensions.iter().map(|length| usize::try_from(*length));
    lengths
        .collect::<Result<_, _>>()
        .map_err(|_| TensorError::Negative(shown(dimensions)))
}

/// Most dimensions that a message shows.
const SHOWN_DIMENSIONS: usize = 8;

/// A shape as people write it.
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
            assert!(matches!(error, TensorError::TooLarge(_)), "{error}");
        }
    }

    #[test]
    fn strings_have_their_lengths_before_them() {
        let tensor = Tensor::of_strings(["a", "", "bcd"]);
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
