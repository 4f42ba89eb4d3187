//! What the nodes ask of a tensor that is an image.

use graphmill_engine::{Error, Result};

use crate::tensor::{Datatype, Tensor, shown};

/// Most pixels of a side. A tensor of images comes from requests, and what is made of it takes
/// memory.
pub(super) const MAX_SIDE: usize = 16_384;

/// The size of an image.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) channels: usize,
}

/// The size of an image whose channels are innermost; its elements have to be of one of these
/// datatypes.
pub(super) fn size_of(image: &Tensor, datatypes: &[Datatype]) -> Result<Size> {
    if !datatypes.contains(&image.datatype()) {
        let names: Vec<&str> = datatypes.iter().map(|it| it.name()).collect();
        let message = format!(
            "expected an image of {}, but it is {}",
            names.join(" or "),
            image.datatype()
        );
        return Err(Error::invalid(message));
    }
    match *image.shape() {
        [height, width, channels] if height > 0 && width > 0 && channels > 0 => Ok(Size {
            height,
            width,
            channels,
        }),
        _ => Err(Error::invalid(format!(
            "expected an image of shape [height, width, channels], but its shape is {}",
            shown(image.shape())
        ))),
    }
}

/// A tensor of what a node has made.
pub(super) fn made(datatype: Datatype, shape: &[usize], data: Vec<u8>) -> Result<Tensor> {
    Tensor::new(datatype, shape, data).map_err(|error| Error::internal(error.to_string()))
}
