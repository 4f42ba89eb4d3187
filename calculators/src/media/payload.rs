//! Payloads of streams of images.

use std::sync::Arc;

use graphmill_engine::register_payload;
use graphmill_llm::{Medium, Tile};
use serde_json::{Value, json};

use crate::tensor::Tensor;

/// The decoded images of a request: a list for each of its prompts, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptImages(pub Vec<Vec<PromptImage>>);

/// An image of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptImage {
    /// Path in the request, for errors: `messages[0].content[1]`.
    pub field: Arc<str>,
    /// Pixels: UINT8 of shape `[height, width, 3]`, rows from the top, in red, green and blue.
    pub pixels: Tensor,
    /// Salt: encoded images are shared only with requests that have the same one.
    pub salt: Arc<str>,
}

/// The encoded images of a request: a list for each of its prompts, with the embeddings of each
/// image.
#[derive(Clone, Debug, Default)]
pub struct PromptEmbeddings(pub Vec<Vec<Arc<Medium>>>);

register_payload!(PromptImages as "prompt_images", images_to_json, |_: &Value| Err(
    "images cannot be read from JSON: only nodes make them".to_owned()
));
register_payload!(PromptEmbeddings as "prompt_embeddings", embeddings_to_json, |_: &Value| Err(
    "embeddings cannot be read from JSON: only nodes make them".to_owned()
));

fn images_to_json(images: &PromptImages) -> Value {
    let image = |image: &PromptImage| {
        json!({
            "field": image.field,
            "shape": image.pixels.shape(),
            "datatype": image.pixels.datatype().name(),
        })
    };
    let prompt = |images: &Vec<PromptImage>| images.iter().map(image).collect::<Value>();
    images.0.iter().map(prompt).collect()
}

fn embeddings_to_json(embeddings: &PromptEmbeddings) -> Value {
    let image = |image: &Arc<Medium>| {
        let width = image.tiles().find_map(|tile: &Arc<Tile>| tile.width());
        json!({ "positions": image.positions(), "width": width })
    };
    let prompt = |images: &Vec<Arc<Medium>>| images.iter().map(image).collect::<Value>();
    embeddings.0.iter().map(prompt).collect()
}
