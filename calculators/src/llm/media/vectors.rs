//! Vectors of requests: their checks, and their conversion to the model's input.

use std::sync::Arc;

use graphmill_engine::Result;
use graphmill_llm::Medium;

use super::wrong;
use crate::llm::LanguageModel;
use crate::payload::{PromptVectors, TokenPrompt};

/// Converts vectors of a request to a prompt for the model.
///
/// # Errors
/// The graph or the model takes no vectors, or none of this width.
pub(crate) fn place_vectors(model: &LanguageModel, vectors: &PromptVectors) -> Result<TokenPrompt> {
    let unsupported = |message| Err(wrong(vectors.field(), message, "unsupported_parameter"));
    if !model.media().vectors {
        return unsupported(
            "is not supported: the graph's LLM node needs the option `prompt_embeds: true`, which \
             `serve --enable-prompt-embeds` sets for a model without a graph",
        );
    }
    let Some(width) = model.engine().vector_width() else {
        return unsupported("is not supported: the model reads only tokens");
    };
    let invalid = |message: &str| wrong(vectors.field(), message, "invalid_value");
    let count = vectors.numbers().len();
    let fault = match vectors.width() {
        Some(found) if found != width => Some(format!("has rows of {found} numbers")),
        None if !count.is_multiple_of(width) => {
            Some(format!("has {count} numbers, which are no whole rows"))
        }
        _ => None,
    };
    if let Some(fault) = fault {
        let message = format!("{fault}: the model's embeddings have {width}");
        return Err(invalid(&message));
    }
    let medium = Medium::from_embeddings(width, Arc::clone(vectors.numbers()));
    let medium = medium.ok_or_else(|| invalid("has more rows than a prompt can have"))?;
    let (mut tokens, mut tiles) = (Vec::new(), Vec::new());
    medium.append_to(&mut tokens, &mut tiles);
    Ok(TokenPrompt {
        tokens,
        tiles: tiles.into(),
        ..TokenPrompt::default()
    })
}
