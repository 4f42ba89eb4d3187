//! `ImageResizeCalculator`: resizes images.

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, OpenCx, Out, Result, Run, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::pixels::{MAX_SIDE, Size, made, size_of};
use crate::tensor::{Datatype, Tensor};

/// Options of an `ImageResizeCalculator` node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImageResizeOptions {
    /// Width of the output in pixels. Required.
    #[schemars(range(max = MAX_SIDE))]
    pub width: u32,
    /// Height of the output in pixels. Required.
    #[schemars(range(max = MAX_SIDE))]
    pub height: u32,
    /// Treatment of images with other proportions. Default: `STRETCH`.
    pub fit: FitOption,
    /// Resampling filter. Default: `BILINEAR`.
    pub filter: FilterOption,
    /// Value of all channels of the border with `fit: PAD`. Default: 0.
    pub fill: u8,
}

/// Treatment of images with other proportions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum FitOption {
    /// Stretches the image.
    #[default]
    Stretch,
    /// Fills the output and cuts the rest off, evenly on both sides.
    Crop,
    /// Fits the image inside of the output and fills the rest, evenly on both sides.
    Pad,
}

/// A resampling filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum FilterOption {
    /// Nearest neighbor: copies one pixel.
    Nearest,
    /// Mean of the pixels that the new pixel covers.
    Box,
    /// Linear weights, by distance.
    #[default]
    Bilinear,
    /// Cubic weights (Catmull-Rom): sharper than `BILINEAR`.
    Bicubic,
    /// Lanczos weights with a radius of 3: sharper than `BICUBIC`, from more pixels.
    Lanczos,
}

impl FilterOption {
    fn algorithm(self) -> ResizeAlg {
        ResizeAlg::Convolution(match self {
            Self::Nearest => return ResizeAlg::Nearest,
            Self::Box => FilterType::Box,
            Self::Bilinear => FilterType::Bilinear,
            Self::Bicubic => FilterType::CatmullRom,
            Self::Lanczos => FilterType::Lanczos3,
        })
    }
}

/// Resizes images to one size. When an image gets smaller, each new pixel is computed from all
/// pixels that it covers, except with the filter `NEAREST`.
///
/// ```pbtxt
/// input_stream: "image"
/// output_stream: "small"
/// node {
///   calculator: "ImageResizeCalculator"
///   input_stream: "IMAGE:image"
///   output_stream: "IMAGE:small"
///   node_options {
///     [type.googleapis.com/graphmill.ImageResizeCalculatorOptions] { width: 224 height: 224 fit: CROP }
///   }
/// }
/// ```
pub struct ImageResize(ImageResizeOptions);

impl Calculator for ImageResize {
    const NAME: &'static str = "ImageResizeCalculator";
    const DOC: &'static str = "Resizes images to one size.";
    type Options = ImageResizeOptions;
    type Ports = (In<Tensor>, Out<Tensor>);

    fn contract(c: &mut Contract, options: &ImageResizeOptions) -> Self::Ports {
        c.run(Run::Offload("cpu"));
        c.parallel();
        for (name, side) in [("width", options.width), ("height", options.height)] {
            if side == 0 {
                c.missing_option(name, "224");
            }
        }
        (c.input("IMAGE"), c.output("IMAGE"))
    }

    fn open(options: &ImageResizeOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(options.clone()))
    }

    fn process(&mut self, (image, resized): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(image) = cx.get(image) {
            let image = self.resize(image)?;
            cx.emit(resized, image);
        }
        Ok(Flow::Continue)
    }
}
register!(ImageResize);

impl ImageResize {
    fn resize(&self, image: &Tensor) -> Result<Tensor> {
        let size = size_of(image, &[Datatype::Uint8])?;
        let pixel = match size.channels {
            1 => PixelType::U8,
            3 => PixelType::U8x3,
            4 => PixelType::U8x4,
            other => {
                let message =
                    format!("expected an image of 1, 3 or 4 channels, but it has {other}");
                return Err(Error::invalid(message));
            }
        };
        let failed = |error: &dyn std::fmt::Display| Error::invalid(format!("the image: {error}"));
        if size.width > MAX_SIDE || size.height > MAX_SIDE {
            return Err(failed(&format_args!(
                "a side can have at most {MAX_SIDE} pixels"
            )));
        }
        let (width, height) = (self.0.width as usize, self.0.height as usize);
        let inside = match self.0.fit {
            FitOption::Pad => within(size, width, height),
            FitOption::Stretch | FitOption::Crop => (width, height),
        };
        let (from_width, from_height) = (size.width as u32, size.height as u32);
        let from = ImageRef::new(from_width, from_height, image.data(), pixel);
        let from = from.map_err(|error| failed(&error))?;
        let mut into = Image::new(inside.0 as u32, inside.1 as u32, pixel);
        let options = ResizeOptions::new()
            .resize_alg(self.0.filter.algorithm())
            .use_alpha(false);
        let options = match self.0.fit {
            FitOption::Crop => options.fit_into_destination(None),
            FitOption::Stretch | FitOption::Pad => options,
        };
        let mut resizer = Resizer::new();
        let done = resizer.resize(&from, &mut into, &options);
        done.map_err(|error| failed(&error))?;
        let data = into.into_vec();
        let data = if inside == (width, height) {
            data
        } else {
            self.framed(&data, inside, size.channels)
        };
        made(Datatype::Uint8, &[height, width, size.channels], data)
    }

    /// Puts the image into the middle of a filled border.
    fn framed(&self, image: &[u8], (width, height): (usize, usize), channels: usize) -> Vec<u8> {
        let row = self.0.width as usize * channels;
        let mut data = vec![self.0.fill; row * self.0.height as usize];
        let top = (self.0.height as usize - height) / 2;
        let left = (self.0.width as usize - width) / 2 * channels;
        let rows = data.chunks_exact_mut(row).skip(top);
        for (into, from) in rows.zip(image.chunks_exact(width * channels)) {
            into[left..left + from.len()].copy_from_slice(from);
        }
        data
    }
}

/// Returns the largest size with an image's proportions that fits into this one.
fn within(size: Size, width: usize, height: usize) -> (usize, usize) {
    let scaled = |side: usize, of: usize, to: usize| (side * to + of / 2) / of;
    if size.width * height > size.height * width {
        (
            width,
            scaled(size.height, size.width, width).clamp(1, height),
        )
    } else {
        (
            scaled(size.width, size.height, height).clamp(1, width),
            height,
        )
    }
}
