//! `MediaDecoderCalculator`: decodes the images of prompts to pixels.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, OpenCx, Out, Result, Run, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{PromptImage, PromptImages};
use crate::llm::ImageLimits;
use crate::llm::options::{MAX_IMAGE_PIXELS, MAX_MEDIA, MAX_MEDIUM_BYTES};
use crate::payload::{MediaKind, Prompt, Prompts};
use crate::tensor::{Datatype, Tensor};

/// Options of a `MediaDecoderCalculator` node. The options of the same names of an `LLMCalculator`
/// apply earlier: its `OpenAIRequestCalculator` refuses what they do not allow.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MediaDecoderOptions {
    /// Maximum number of images of a prompt.
    #[schemars(range(max = MAX_MEDIA))]
    pub max_images: u32,
    /// Maximum size of an image file, in bytes.
    #[schemars(range(max = MAX_MEDIUM_BYTES))]
    pub max_image_bytes: u64,
    /// Maximum number of pixels of an image.
    #[schemars(range(max = MAX_IMAGE_PIXELS))]
    pub max_image_pixels: u64,
}

impl Default for MediaDecoderOptions {
    fn default() -> Self {
        let limits = ImageLimits::default();
        Self {
            max_images: limits.count,
            max_image_bytes: limits.bytes,
            max_image_pixels: limits.pixels,
        }
    }
}

/// Decodes the images of prompts: PNG, JPEG, WebP, GIF and BMP files.
///
/// `PROMPT` comes from a chat template. The images of each prompt come out on `IMAGES`, upright and
/// in RGB; a prompt without images has none there. The size of an image is checked before it is
/// decoded.
///
/// ```pbtxt
/// input_stream: "PROMPT:prompt"
/// output_stream: "IMAGES:images"
/// node {
///   calculator: "MediaDecoderCalculator"
///   input_stream: "PROMPT:prompt"
///   output_stream: "IMAGES:images"
///   node_options {
///     [type.googleapis.com/graphmill.MediaDecoderCalculatorOptions] { max_images: 4 }
///   }
/// }
/// ```
pub struct MediaDecoder(ImageLimits);

/// The port handles of [`MediaDecoder`].
#[derive(Copy, Clone, Debug)]
pub struct MediaDecoderPorts {
    prompts: In<Prompts>,
    images: Out<PromptImages>,
}

impl Calculator for MediaDecoder {
    const NAME: &'static str = "MediaDecoderCalculator";
    const DOC: &'static str = "Decodes the images of prompts, for an ImageEncoderCalculator.";
    type Options = MediaDecoderOptions;
    type Ports = MediaDecoderPorts;

    fn contract(c: &mut Contract, _: &MediaDecoderOptions) -> MediaDecoderPorts {
        c.run(Run::Offload("cpu"));
        MediaDecoderPorts {
            prompts: c.input("PROMPT"),
            images: c.output("IMAGES"),
        }
    }

    fn open(options: &MediaDecoderOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(ImageLimits {
            count: options.max_images,
            bytes: options.max_image_bytes,
            pixels: options.max_image_pixels,
        }))
    }

    fn process(&mut self, io: MediaDecoderPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(prompts) = cx.get(io.prompts) {
            let cancel = &cx.run().cancel;
            let decoded = prompts.0.iter().map(|prompt| {
                if cancel.is_cancelled() {
                    return Err(Error::cancelled("the request was cancelled"));
                }
                self.decode(prompt)
            });
            let decoded = decoded.collect::<Result<_>>()?;
            cx.emit(io.images, PromptImages(decoded));
        }
        Ok(Flow::Continue)
    }
}
register!(MediaDecoder);

impl MediaDecoder {
    fn decode(&self, prompt: &Prompt) -> Result<Vec<PromptImage>> {
        let Prompt::Templated(prompt) = prompt else {
            return Ok(Vec::new());
        };
        if let Some(sound) = prompt.media.iter().find(|it| it.kind == MediaKind::Sound) {
            let message = format!("`{}` is a sound, but this graph takes images", sound.field);
            return Err(Error::invalid(message)
                .with_field(sound.field.to_string())
                .with_code("unsupported_parameter"));
        }
        self.0.check(prompt.media.iter())?;
        let partner = prompt.partner.as_ref();
        let salt: Arc<str> = partner.map_or_else(|| "".into(), |it| Arc::clone(&it.salt));
        let decoded = prompt.media.iter().map(|image| {
            let bitmap = self.0.decode(image)?;
            let shape = [bitmap.height() as usize, bitmap.width() as usize, 3];
            let pixels = Tensor::new(Datatype::Uint8, shape, bitmap.into_rgb());
            Ok(PromptImage {
                field: Arc::clone(&image.field),
                pixels: pixels.map_err(|error| Error::internal(error.to_string()))?,
                salt: Arc::clone(&salt),
            })
        });
        decoded.collect()
    }
}
