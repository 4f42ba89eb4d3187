//! Elements of BYTES tensors. Each is stored as its length, four bytes little-endian, and its
//! bytes.

use bytes::Bytes;

use super::{TensorError, shown};

/// Divides data into the first element and the rest; `None` if there is no whole element.
pub(super) fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    rest.split_at_checked(length)
}

/// Checks that the data has as many elements as the shape.
pub(super) fn check(data: &[u8], expected: usize, shape: &[usize]) -> Result<(), TensorError> {
    let (mut rest, mut found) = (data, 0);
    while !rest.is_empty() && found <= expected {
        let cut = || TensorError(format!("element {found} of the BYTES ends behind the data"));
        (_, rest) = split(rest).ok_or_else(cut)?;
        found += 1;
    }
    if found == expected {
        return Ok(());
    }
    let shape = shown(shape);
    Err(TensorError(format!(
        "BYTES of shape {shape} has {expected} elements, but there are {found}"
    )))
}

/// Joins elements to the data of a tensor, and counts them. An element that is longer than four
/// bytes can count is cut.
pub(super) fn join<S: AsRef<[u8]>>(strings: impl IntoIterator<Item = S>) -> (Bytes, usize) {
    let (mut data, mut count) = (Vec::new(), 0);
    for string in strings {
        append(&mut data, string.as_ref());
        count += 1;
    }
    (data.into(), count)
}

/// Appends an element, with its length before it.
pub(super) fn append(data: &mut Vec<u8>, string: &[u8]) {
    let length = u32::try_from(string.len()).unwrap_or(u32::MAX);
    data.extend_from_slice(&length.to_le_bytes());
    data.extend_from_slice(&string[..length as usize]);
}
