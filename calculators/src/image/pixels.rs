//! Checks of tensors that are images, shared by the nodes.

use graphmill_engine::{Error, Result};

use crate::tensor::{Datatype, Tensor, shown};

/// Maximum width and height of an image, in pixels. Tensors come from requests, and the results
/// take memory.
pub(super) const MAX_SIDE: usize = 16_384;

/// The height, width and channels of an image.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) channels: usize,
}

/// Returns the size of an image whose channels are innermost. Its elements must be of one of these
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

/// Creates the tensor of a node's output.
pub(super) fn made(datatype: Datatype, shape: &[usize], data: Vec<u8>) -> Result<Tensor> {
    Tensor::new(datatype, shape, data).map_err(|error| Error::internal(error.to_string()))
}
