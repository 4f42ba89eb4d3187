//! `ImageNormalizeCalculator`: converts pixels to the numbers that a model was trained with.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, OpenCx, Out, Result, Run, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::pixels::{made, size_of};
use crate::tensor::{Datatype, Tensor};

/// Options of an `ImageNormalizeCalculator` node.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImageNormalizeOptions {
    /// Factor that each number is multiplied by first. The default, 1/255, maps bytes to numbers
    /// from 0 to 1.
    pub scale: f32,
    /// Numbers to subtract after scaling: one, or one for each channel. Default: 0.
    pub mean: Vec<f32>,
    /// Numbers to divide by last: one, or one for each channel, other than 0. Negative numbers
    /// invert the image. Default: 1.
    pub std: Vec<f32>,
}

impl Default for ImageNormalizeOptions {
    fn default() -> Self {
        Self {
            scale: 1.0 / 255.0,
            mean: Vec::new(),
            std: Vec::new(),
        }
    }
}

/// Converts an image to FP32: `(pixel * scale - mean) / std`.
///
/// ```pbtxt
/// input_stream: "image"
/// output_stream: "floats"
/// node {
///   calculator: "ImageNormalizeCalculator"
///   input_stream: "IMAGE:image"
///   output_stream: "IMAGE:floats"
///   node_options {
///     [type.googleapis.com/graphmill.ImageNormalizeCalculatorOptions] {
///       mean: [0.485, 0.456, 0.406]
///       std: [0.229, 0.224, 0.225]
///     }
///   }
/// }
/// ```
pub struct ImageNormalize(ImageNormalizeOptions);

impl Calculator for ImageNormalize {
    const NAME: &'static str = "ImageNormalizeCalculator";
    const DOC: &'static str = "Converts images to normalized floats.";
    type Options = ImageNormalizeOptions;
    type Ports = (In<Tensor>, Out<Tensor>);

    fn contract(c: &mut Contract, options: &ImageNormalizeOptions) -> Self::Ports {
        c.run(Run::Offload("cpu"));
        c.parallel();
        let finite = |all: &[f32]| all.iter().all(|number| number.is_finite());
        if !options.scale.is_finite() {
            c.option_error("scale", "expected a finite number");
        }
        if !finite(&options.mean) {
            c.option_error("mean", "expected finite numbers");
        }
        if !finite(&options.std) || options.std.contains(&0.0) {
            c.option_error("std", "expected finite numbers other than 0");
        }
        (c.input("IMAGE"), c.output("IMAGE"))
    }

    fn open(options: &ImageNormalizeOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(options.clone()))
    }

    fn process(&mut self, (image, floats): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(image) = cx.get(image) {
            let image = self.normalize(image)?;
            cx.emit(floats, image);
        }
        Ok(Flow::Continue)
    }
}
register!(ImageNormalize);

impl ImageNormalize {
    fn normalize(&self, image: &Tensor) -> Result<Tensor> {
        let size = size_of(image, &[Datatype::Uint8, Datatype::Fp32])?;
        let mean = channel_values("mean", &self.0.mean, 0.0, size.channels)?;
        let std = channel_values("std", &self.0.std, 1.0, size.channels)?;
        let mut channels = mean.into_iter().zip(std).cycle();
        let mut number = |value: f32| {
            let (mean, std) = channels.next().unwrap_or((0.0, 1.0));
            ((value * self.0.scale - mean) / std).to_le_bytes()
        };
        let data: Vec<u8> = if image.datatype() == Datatype::Uint8 {
            let all = image.data().iter();
            all.flat_map(|it| number(f32::from(*it))).collect()
        } else {
            let all = image.data().as_chunks().0.iter();
            all.flat_map(|it| number(f32::from_le_bytes(*it))).collect()
        };
        made(Datatype::Fp32, image.shape(), data)
    }
}

/// Returns a number for each channel.
fn channel_values(option: &str, given: &[f32], default: f32, channels: usize) -> Result<Vec<f32>> {
    match given {
        [] => Ok(vec![default; channels]),
        [one] => Ok(vec![*one; channels]),
        all if all.len() == channels => Ok(all.to_vec()),
        all => Err(Error::invalid(format!(
            "the image has {channels} channels, but `{option}` of the node has {} numbers",
            all.len()
        ))),
    }
}
