//! `ImageLayoutCalculator`: reorders an image's dimensions and channels.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, OpenCx, Out, Result, Run, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::pixels::made;
use crate::tensor::{Datatype, Tensor, shown};

/// Weights of red, green and blue in the brightness.
const BRIGHTNESS: [f32; 3] = [0.299, 0.587, 0.114];

/// Options of an `ImageLayoutCalculator` node.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImageLayoutOptions {
    /// Order of the dimensions of the input. Default: `HWC`.
    pub from: LayoutOption,
    /// Order of the dimensions of the output. Default: `NCHW`.
    pub to: LayoutOption,
    /// Reverses the order of the channels: RGB becomes BGR, and BGR becomes RGB.
    pub reverse_channels: bool,
    /// Converts three channels, red, green and blue in this order, to one: the brightness.
    pub grayscale: bool,
}

impl Default for ImageLayoutOptions {
    fn default() -> Self {
        Self {
            from: LayoutOption::Hwc,
            to: LayoutOption::Nchw,
            reverse_channels: false,
            grayscale: false,
        }
    }
}

/// Order of the dimensions of an image, outermost first: height, width, channels, and a batch of
/// one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum LayoutOption {
    /// Height, width, channels: pixel by pixel.
    Hwc,
    /// Channels, height, width: channel by channel.
    Chw,
    /// A batch of one image, pixel by pixel.
    Nhwc,
    /// A batch of one image, channel by channel.
    Nchw,
}

impl LayoutOption {
    fn has_batch(self) -> bool {
        matches!(self, Self::Nhwc | Self::Nchw)
    }

    fn has_planes(self) -> bool {
        matches!(self, Self::Chw | Self::Nchw)
    }
}

/// Puts an image's dimensions and channels into the order that a model takes. By default
/// `[height, width, channels]` becomes `[1, channels, height, width]`. A batch that becomes a
/// single image must have exactly one image.
///
/// ```pbtxt
/// input_stream: "image"
/// output_stream: "planes"
/// node {
///   calculator: "ImageLayoutCalculator"
///   input_stream: "IMAGE:image"
///   output_stream: "IMAGE:planes"
///   node_options {
///     [type.googleapis.com/graphmill.ImageLayoutCalculatorOptions] { to: NCHW reverse_channels: true }
///   }
/// }
/// ```
pub struct ImageLayout(ImageLayoutOptions);

impl Calculator for ImageLayout {
    const NAME: &'static str = "ImageLayoutCalculator";
    const DOC: &'static str = "Puts dimensions and channels of images into another order.";
    type Options = ImageLayoutOptions;
    type Ports = (In<Tensor>, Out<Tensor>);

    fn contract(c: &mut Contract, _: &ImageLayoutOptions) -> Self::Ports {
        c.run(Run::Offload("cpu"));
        c.parallel();
        (c.input("IMAGE"), c.output("IMAGE"))
    }

    fn open(options: &ImageLayoutOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(options.clone()))
    }

    fn process(&mut self, (image, laid_out): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(image) = cx.get(image) {
            let image = self.lay_out(image)?;
            cx.emit(laid_out, image);
        }
        Ok(Flow::Continue)
    }
}
register!(ImageLayout);

impl ImageLayout {
    fn lay_out(&self, image: &Tensor) -> Result<Tensor> {
        let options = &self.0;
        let (batch, rest) = match image.shape() {
            [batch, rest @ ..] if options.from.has_batch() => (*batch, rest),
            rest => (1, rest),
        };
        let (&[outer, middle, inner], Some(element)) = (rest, image.datatype().size()) else {
            let expected = if options.from.has_batch() { 4 } else { 3 };
            return Err(Error::invalid(format!(
                "expected an image of {expected} dimensions and numbers, but it is {} of shape {}",
                image.datatype(),
                shown(image.shape())
            )));
        };
        if batch != 1 && !options.to.has_batch() {
            let message = format!("expected one image, but there are {batch}");
            return Err(Error::invalid(message));
        }
        let ([height, width, channels], [of_row, of_column, of_channel]) =
            if options.from.has_planes() {
                ([middle, inner, outer], [inner, 1, middle * inner])
            } else {
                ([outer, middle, inner], [middle * inner, inner, 1])
            };
        if options.grayscale && channels != 3 {
            let message = format!("expected an image of 3 channels, but it has {channels}");
            return Err(Error::invalid(message));
        }
        let planes = options.to.has_planes();
        let made_channels = if options.grayscale { 1 } else { channels };
        let lengths = if planes {
            [made_channels, height, width]
        } else {
            [height, width, made_channels]
        };
        let data = image.data();
        let mut laid_out = Vec::with_capacity(batch * lengths.iter().product::<usize>() * element);
        for number in 0..batch {
            for (a, b, c) in indices(lengths) {
                let (row, column, channel) = if planes { (b, c, a) } else { (a, b, c) };
                let pixel = number * height * width * channels + row * of_row + column * of_column;
                let at =
                    |channel: usize| &data[(pixel + channel * of_channel) * element..][..element];
                if options.grayscale {
                    gray(image.datatype(), [at(0), at(1), at(2)], &mut laid_out)?;
                } else if options.reverse_channels {
                    laid_out.extend_from_slice(at(channels - 1 - channel));
                } else {
                    laid_out.extend_from_slice(at(channel));
                }
            }
        }
        let mut shape = lengths.to_vec();
        if options.to.has_batch() {
            shape.insert(0, batch);
        }
        made(image.datatype(), &shape, laid_out)
    }
}

fn indices([a, b, c]: [usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| (i, j, k))))
}

/// Appends the brightness of a pixel.
fn gray(datatype: Datatype, pixel: [&[u8]; 3], into: &mut Vec<u8>) -> Result<()> {
    let sum = |value: &dyn Fn(&[u8]) -> f32| -> f32 {
        let parts = pixel.iter().zip(BRIGHTNESS);
        parts.map(|(channel, share)| value(channel) * share).sum()
    };
    match datatype {
        Datatype::Uint8 => into.push(sum(&|it| f32::from(it[0])).round() as u8),
        Datatype::Fp32 => {
            let float =
                |it: &[u8]| f32::from_le_bytes(it.first_chunk().copied().unwrap_or_default());
            into.extend_from_slice(&sum(&float).to_le_bytes());
        }
        other => {
            let message =
                format!("expected an image of UINT8 or FP32 to make gray, but it is {other}");
            return Err(Error::invalid(message));
        }
    }
    Ok(())
}
