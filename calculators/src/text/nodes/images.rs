//! Conversations with images to tokens.

use graphmill_engine::{Error, Result};

use super::tokenizer::too_large;
use crate::llm::LanguageModel;
use crate::payload::{TemplatedPrompt, TokenPrompt, image_marker};

/// Makes tokens of a conversation, and places its images. What comes before an image, and what comes
/// after it, is tokenized by itself.
pub(super) fn tokenize(model: &LanguageModel, prompt: &TemplatedPrompt) -> Result<TokenPrompt> {
    let engine = model.engine();
    let images = model.images();
    images.check(&engine, &prompt.images)?;
    let mut texts = prompt.text.split(image_marker());
    let found = texts.clone().count() - 1;
    if found != prompt.images.len() {
        let message = format!(
            "the model's chat template makes {found} of the {} images in the conversation: it leaves the content of some messages out, or repeats it",
            prompt.images.len()
        );
        return Err(Error::invalid(message)
            .with_field("messages")
            .with_code("invalid_value"));
    }
    let salt = prompt.partner.as_ref().map_or("", |partner| &partner.salt);
    let vocab = model.vocab();
    let (mut tokens, mut tiles) = (Vec::new(), Vec::new());
    for (index, text) in texts.by_ref().enumerate() {
        if let Some(before) = index.checked_sub(1) {
            let image = images.read(&engine, salt, &prompt.images[before])?;
            image.append_to(&mut tokens, &mut tiles);
        }
        if !text.is_empty() {
            tokens.extend(vocab.tokenize(text, false, true).map_err(too_large)?);
        }
    }
    Ok(TokenPrompt {
        tokens,
        tiles: tiles.into(),
        asked: None,
    })
}
