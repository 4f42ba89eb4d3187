//! What streams of images carry.

use std::sync::Arc;

use graphmill_engine::register_payload;
use graphmill_llm::{Medium, Tile};
use serde_json::{Value, json};

use crate::tensor::Tensor;

/// The images of a request, decoded: for each of its prompts those that it has, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptImages(pub Vec<Vec<PromptImage>>);

/// An image of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptImage {
    /// Where it is in the request, for errors: `messages[0].content[1]`.
    pub field: Arc<str>,
    /// Its pixels: UINT8 of shape `[height, width, 3]`, rows from the top, red, green and blue.
    pub pixels: Tensor,
    /// What was encoded is shared with requests that have the same salt.
    pub salt: Arc<str>,
}

/// What a model reads in the place of the images of a request, computed: for each of its prompts and
/// each image of it.
#[derive(Clone, Debug, Default)]
pub struct PromptEmbeddings(pub Vec<Vec<Arc<Medium>>>);

register_payload!(PromptImages as "prompt_images", images_to_json, |_: &Value| Err(
    "images are made by nodes alone".to_owned()
));
register_payload!(PromptEmbeddings as "prompt_embeddings", embeddings_to_json, |_: &Value| Err(
    "embeddings are made by nodes alone".to_owned()
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
