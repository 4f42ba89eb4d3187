//! `ImageEncoderCalculator`: encodes the images of prompts for a model.

use std::sync::Arc;

use graphmill_engine::{
    AsyncCalculator, Contract, Emits, Error, Flow, In, InputSet, NoOptions, OpenCx, Out, Res,
    Result, register_async,
};
use graphmill_llm::{Bitmap, Medium, Unread};
use tokio::sync::oneshot;

use super::{PromptEmbeddings, PromptImage, PromptImages};
use crate::llm::{self, LanguageModel};
use crate::payload::MediaKind;
use crate::tensor::{Datatype, shown};

/// Encodes the images of prompts with the projector (`mmproj`) of a model.
///
/// The projector belongs to the resource that an `LLMCalculator` defines. It has a queue of its
/// own, which the requests of all sessions and of all graphs with that model share. Other sessions
/// and the steps of the model continue meanwhile. Encoded images are cached up to
/// `image_cache_size`, by their pixels and the `cache_salt` of their request. The cache does not
/// depend on the adapter.
///
/// ```pbtxt
/// input_stream: "IMAGES:images"
/// output_stream: "EMBEDDINGS:embeddings"
/// node {
///   calculator: "ImageEncoderCalculator"
///   input_side_packet: "LLM_NODE_RESOURCES:llm"
///   input_stream: "IMAGES:images"
///   output_stream: "EMBEDDINGS:embeddings"
/// }
/// ```
pub struct ImageEncoder {
    model: Arc<LanguageModel>,
}

/// The port handles of [`ImageEncoder`].
#[derive(Copy, Clone, Debug)]
pub struct ImageEncoderPorts {
    images: In<PromptImages>,
    embeddings: Out<PromptEmbeddings>,
    model: Res<LanguageModel>,
}

impl AsyncCalculator for ImageEncoder {
    const NAME: &'static str = "ImageEncoderCalculator";
    const DOC: &'static str = "Encodes the images of prompts with the projector of a model.";
    type Options = NoOptions;
    type Ports = ImageEncoderPorts;

    fn contract(c: &mut Contract, _: &NoOptions) -> ImageEncoderPorts {
        c.parallel();
        ImageEncoderPorts {
            images: c.input("IMAGES"),
            embeddings: c.output("EMBEDDINGS"),
            model: c.resource("LLM_NODE_RESOURCES", None),
        }
    }

    fn open(_: &NoOptions, io: ImageEncoderPorts, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            model: cx.resource(io.model),
        })
    }

    async fn process(
        &mut self,
        io: ImageEncoderPorts,
        mut set: InputSet,
        out: &mut Emits,
    ) -> Result<Flow> {
        if let Some(PromptImages(prompts)) = set.take(io.images) {
            let counts: Vec<usize> = prompts.iter().map(Vec::len).collect();
            let images: Vec<PromptImage> = prompts.into_iter().flatten().collect();
            let mut encoded = self.encode(images, out).await?.into_iter();
            let prompts = counts.into_iter();
            let prompts = prompts.map(|count| encoded.by_ref().take(count).collect());
            out.emit(io.embeddings, PromptEmbeddings(prompts.collect()));
        }
        Ok(Flow::Continue)
    }
}
register_async!(ImageEncoder);

impl ImageEncoder {
    async fn encode(&self, images: Vec<PromptImage>, out: &mut Emits) -> Result<Vec<Arc<Medium>>> {
        let Some(first) = images.first() else {
            return Ok(Vec::new());
        };
        let engine = self.model.engine();
        let vision = llm::vision(&engine, MediaKind::Image, &first.field)?;
        let fields: Vec<Arc<str>> = images.iter().map(|it| Arc::clone(&it.field)).collect();
        let bitmaps = images.into_iter().map(bitmap).collect::<Result<_>>()?;
        let (told, answer) = oneshot::channel();
        // The receiver is gone if its session has ended.
        let tell = |encoded| drop(told.send(encoded));
        // The session owns this handle. When it is dropped, its images are not encoded.
        let encoding = vision.encode_bitmaps(bitmaps, tell).map_err(llm::refused)?;
        let (model, has_begun) = (Arc::clone(&self.model), encoding.watch());
        out.waits_for(move || llm::waits::encoder(&model.engine(), has_begun()));
        let encoded = answer.await;
        let encoded = encoded.map_err(|_| Error::unavailable("the model has stopped"))?;
        encoded.map_err(|error| match error {
            Unread::Refused { index, message } => {
                llm::unreadable(MediaKind::Image, &fields[index], &message)
            }
            Unread::Failed(error) => llm::failed(error),
        })
    }
}

/// Returns the bitmap of an image, with its salt. Checks the pixels, because a custom node may have
/// made them.
fn bitmap(image: PromptImage) -> Result<(Arc<str>, Bitmap)> {
    let (datatype, shape) = (image.pixels.datatype(), image.pixels.shape());
    let refused = Error::invalid(format!(
        "`{}` has no pixels that can be encoded: expected UINT8 of shape [height, width, 3], but they are {datatype} of shape {}",
        image.field,
        shown(shape)
    ));
    let (width, height) = match *shape {
        [height, width, 3] if datatype == Datatype::Uint8 => (width, height),
        _ => return Err(refused),
    };
    let (Ok(width), Ok(height)) = (width.try_into(), height.try_into()) else {
        return Err(refused);
    };
    // Moves the pixels, unless they are shared.
    let pixels = Vec::from(image.pixels.into_data());
    let bitmap = Bitmap::new(width, height, pixels).ok_or(refused)?;
    Ok((image.salt, bitmap))
}
