//! Tensors behind the JSON of a body, in their order: the binary tensor data extension.

use axum::http::{HeaderMap, HeaderName};
use bytes::Bytes;

use crate::errors::{Cause, Failure};

/// Says how much of a body is JSON.
pub(super) const LENGTH: &str = "inference-header-content-length";

/// The same as the name of a header.
pub(super) const LENGTH_HEADER: HeaderName = HeaderName::from_static(LENGTH);

/// How much of a body is JSON, if tensors follow.
pub(super) fn json_length(headers: &HeaderMap) -> Result<Option<usize>, Failure> {
    let Some(value) = headers.get(LENGTH_HEADER) else {
        return Ok(None);
    };
    let length = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    length.map(Some).ok_or_else(|| {
        let why = format!("`{LENGTH}` is no number of bytes");
        Failure::new(Cause::BadRequest, why).of_field(LENGTH)
    })
}

/// The bytes behind the JSON that no tensor has taken.
pub(super) struct Behind {
    rest: Bytes,
}

impl Behind {
    pub(super) fn new(rest: Bytes) -> Self {
        Self { rest }
    }

    /// The bytes of the next tensor.
    pub(super) fn take(&mut self, bytes: u64) -> Result<Bytes, String> {
        match usize::try_from(bytes) {
            Ok(bytes) if bytes <= self.rest.len() => Ok(self.rest.split_to(bytes)),
            _ => {
                let left = self.rest.len();
                Err(format!(
                    "the tensor has {bytes} bytes, but {left} are left of the body"
                ))
            }
        }
    }

    /// Refuses bytes that belong to no tensor.
    pub(super) fn ends(&self) -> Result<(), Failure> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let left = self.rest.len();
        let why = format!("the body has {left} bytes behind those that its inputs name");
        Err(Failure::new(Cause::BadRequest, why).of_field("inputs"))
    }
}
