//! `ImageDecodeCalculator`: decodes an image file (PNG, JPEG, WebP, GIF or BMP) to pixels.

use std::borrow::Cow;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, OpenCx, Out, Payload, Result, Run, TypeInfo,
    register,
};
use image::DynamicImage;
use schemars::JsonSchema;
use serde::Deserialize;

use super::file::{self, Size};
use super::pixels::made;
use crate::payload::base64;
use crate::tensor::{Datatype, Tensor, shown};

/// Options of an `ImageDecodeCalculator` node.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImageDecodeOptions {
    /// Channels of the image. Default: `RGB`.
    pub color: ColorOption,
    /// Maximum width and height in pixels. Larger images are refused. Default: 8192.
    #[schemars(range(min = 1, max = 65_535))]
    pub max_side: u32,
    /// Maximum size of the decoded image as the file stores it, in bytes. Default: 128 MiB.
    #[schemars(range(min = 1, max = 4_294_967_296_u64))]
    pub max_decoded_bytes: u64,
}

impl Default for ImageDecodeOptions {
    fn default() -> Self {
        Self {
            color: ColorOption::Rgb,
            max_side: 8192,
            max_decoded_bytes: 128 << 20,
        }
    }
}

/// The channels of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ColorOption {
    /// Three channels: red, green and blue.
    Rgb,
    /// Three channels: blue, green and red.
    Bgr,
    /// One channel: the brightness.
    Gray,
}

/// Decodes a PNG, JPEG, WebP, GIF or BMP file to a tensor: UINT8 of shape
/// `[height, width, channels]`.
///
/// The file is a BYTES tensor of one element, a UINT8 tensor of one dimension, or bytes. It can
/// also be Base64 text, with or without `data:image/png;base64,` before it, as JSON has no bytes.
/// Transparency is dropped. Images are turned upright, as their EXIF orientation says. The size of
/// an image is checked before it is decoded.
///
/// ```pbtxt
/// input_stream: "file"
/// output_stream: "image"
/// node {
///   calculator: "ImageDecodeCalculator"
///   input_stream: "FILE:file"
///   output_stream: "IMAGE:image"
///   node_options {
///     [type.googleapis.com/graphmill.ImageDecodeCalculatorOptions] { color: GRAY max_side: 4096 }
///   }
/// }
/// ```
pub struct ImageDecode(ImageDecodeOptions);

impl Calculator for ImageDecode {
    const NAME: &'static str = "ImageDecodeCalculator";
    const DOC: &'static str = "Decodes image files to tensors: PNG, JPEG, WebP, GIF and BMP.";
    type Options = ImageDecodeOptions;
    type Ports = (In<dyn Payload>, Out<Tensor>);

    fn contract(c: &mut Contract, _: &ImageDecodeOptions) -> Self::Ports {
        c.run(Run::Offload("cpu"));
        c.parallel();
        let types = [
            TypeInfo::new::<Tensor>(),
            TypeInfo::new::<Vec<u8>>(),
            TypeInfo::new::<String>(),
        ];
        (c.one_of("FILE", &types), c.output("IMAGE"))
    }

    fn open(options: &ImageDecodeOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(options.clone()))
    }

    fn process(&mut self, (file, image): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let Some(packet) = cx.take_packet(file) else {
            return Ok(Flow::Continue);
        };
        let decoded = if let Some(tensor) = packet.get::<Tensor>() {
            self.decode(bytes_of(tensor)?)
        } else if let Some(bytes) = packet.get::<Vec<u8>>() {
            self.decode(bytes)
        } else {
            let text = packet.get::<String>().map(String::as_bytes);
            self.decode(text.unwrap_or_default())
        };
        cx.emit(image, decoded?);
        Ok(Flow::Continue)
    }
}
register!(ImageDecode);

/// Returns the file that a tensor contains.
fn bytes_of(tensor: &Tensor) -> Result<&[u8]> {
    match (tensor.datatype(), tensor.shape()) {
        (Datatype::Bytes, _) if tensor.elements() == 1 => {
            Ok(tensor.strings().next().unwrap_or_default())
        }
        (Datatype::Uint8, [_]) => Ok(tensor.data()),
        _ => Err(Error::invalid(format!(
            "expected an image file as BYTES with one element or UINT8 with one dimension, but the tensor is {} of shape {}",
            tensor.datatype(),
            shown(tensor.shape())
        ))),
    }
}

impl ImageDecode {
    fn decode(&self, file: &[u8]) -> Result<Tensor> {
        let file = plain(file)?;
        let (side, most) = (self.0.max_side, self.0.max_decoded_bytes);
        let check = |size: Size| {
            let message = match (size.width, size.height, size.bytes) {
                (width, height, _) if width.max(height) > side => format!(
                    "the image has {width} x {height} pixels, but a side can have at most {side} (max_side)"
                ),
                (_, _, bytes) if bytes > most => format!(
                    "the image has {bytes} bytes when it is decoded, more than {most} (max_decoded_bytes)"
                ),
                _ => return Ok(()),
            };
            Err(Error::invalid(message).with_code("image_too_large"))
        };
        let image = file::decode(&file, side.into(), check).map_err(|fault| {
            let refused =
                |why| Error::invalid(format!("the image {why}")).with_code("invalid_image");
            fault.reason().map_or_else(|error| error, refused)
        })?;
        self.tensor(image)
    }

    fn tensor(&self, image: DynamicImage) -> Result<Tensor> {
        let (width, height) = (image.width() as usize, image.height() as usize);
        let (channels, data) = match self.0.color {
            ColorOption::Gray => (1, image.into_luma8().into_raw()),
            ColorOption::Rgb => (3, image.into_rgb8().into_raw()),
            ColorOption::Bgr => {
                let mut data = image.into_rgb8().into_raw();
                for [red, _, blue] in data.as_chunks_mut().0 {
                    std::mem::swap(red, blue);
                }
                (3, data)
            }
        };
        made(Datatype::Uint8, &[height, width, channels], data)
    }
}

fn unknown() -> Error {
    Error::invalid("expected a PNG, JPEG, WebP, GIF or BMP file, or one in Base64")
        .with_code("invalid_image")
}

/// Returns the bytes of a file, which may be written as Base64.
fn plain(file: &[u8]) -> Result<Cow<'_, [u8]>> {
    if file::is_known(file) {
        return Ok(file.into());
    }
    let text = str::from_utf8(file).map_err(|_| unknown())?.trim();
    let text = match text.strip_prefix("data:") {
        Some(uri) => uri.split_once(";base64,").ok_or_else(unknown)?.1,
        None => text,
    };
    let bytes = base64::decode(text).ok();
    let bytes = bytes.filter(|bytes| file::is_known(bytes));
    bytes.map(Cow::from).ok_or_else(unknown)
}
