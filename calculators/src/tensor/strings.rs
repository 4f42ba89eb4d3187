//! The elements of BYTES tensors: each is its length, four bytes little-endian, and then itself.

use bytes::Bytes;

use super::{TensorError, shown};

/// The elements of a BYTES tensor.
#[derive(Clone, Debug)]
pub struct Strings<'a> {
    /// What follows; whole elements.
    rest: &'a [u8],
}

impl<'a> Strings<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }
}

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (element, rest) = split(self.rest)?;
        self.rest = rest;
        Some(element)
    }
}

/// The first element, and what follows it; none where there is no whole one.
fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    rest.split_at_checked(length)
}

/// Whether the bytes are as many elements as the shape has.
pub(super) fn check(data: &[u8], expected: usize, shape: &[usize]) -> Result<(), TensorError> {
    let (mut rest, mut found) = (data, 0);
    while !rest.is_empty() && found <= expected {
        (_, rest) = split(rest).ok_or(TensorError::CutShort(found))?;
        found += 1;
    }
    if found == expected {
        return Ok(());
    }
    Err(TensorError::WrongCount {
        shape: shown(shape),
        expected,
        found,
    })
}

/// Elements as the data of a tensor, and how many there are. What is longer than four bytes can
/// count is cut.
pub(super) fn join<S: AsRef<[u8]>>(strings: impl IntoIterator<Item = S>) -> (Bytes, usize) {
    let (mut data, mut count) = (Vec::new(), 0);
    for string in strings {
        append(&mut data, string.as_ref());
        count += 1;
    }
    (data.into(), count)
}

/// Appends an element.
pub(super) fn append(data: &mut Vec<u8>, string: &[u8]) {
    let length = u32::try_from(string.len()).unwrap_or(u32::MAX);
    data.extend_from_slice(&length.to_le_bytes());
    data.extend_from_slice(&string[..length as usize]);
}
