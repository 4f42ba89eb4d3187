//! Tokenization of conversations with images and sounds.

use std::sync::Arc;

use graphmill_engine::{Error, Result};
use graphmill_llm::Medium;

use crate::llm::{LanguageModel, is_told_of, not_tokenized, turn};
use crate::payload::{MediaKind, MediaSource, TemplatedPrompt, TokenPrompt, media_marker};

/// Replaces images and sounds in results of tool calls by a line of text, if the model does not
/// take them. Returns `None` if there are none of these.
pub(crate) fn told(
    model: &LanguageModel,
    prompt: &TemplatedPrompt,
    encoded: Option<&[Arc<Medium>]>,
) -> Option<TemplatedPrompt> {
    let engine = model.engine();
    let is_told = |medium: &MediaSource| is_told_of(&engine, medium);
    let mut texts = prompt.text.split(media_marker());
    let is_whole = texts.clone().count() == prompt.media.len() + 1;
    if encoded.is_some() || !is_whole || !prompt.media.iter().any(is_told) {
        return None;
    }
    let mut told = TemplatedPrompt {
        text: texts.next()?.to_owned(),
        media: prompt
            .media
            .iter()
            .filter(|it| !is_told(it))
            .cloned()
            .collect(),
        ..prompt.clone()
    };
    // Number of bytes of the old prompt so far.
    let mut begin = told.text.len();
    for (medium, text) in prompt.media.iter().zip(texts) {
        told.text.push_str(match medium.kind {
            _ if !is_told(medium) => media_marker(),
            MediaKind::Image => "[An image is here, which this model cannot see.]",
            MediaKind::Sound => "[A sound is here, which this model cannot hear.]",
        });
        begin += media_marker().len();
        if let Some(at) = prompt.last_turn.filter(|at| *at >= begin) {
            told.last_turn = Some(told.text.len() + at - begin);
        }
        told.text.push_str(text);
        begin += text.len();
    }
    Some(told)
}

/// Tokenizes a conversation, and places its images and sounds. The texts before and after each of
/// them are tokenized separately.
///
/// A node has `encoded` the images, or they are read here.
pub(super) fn tokenize(
    model: &LanguageModel,
    prompt: &TemplatedPrompt,
    encoded: Option<&[Arc<Medium>]>,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Result<TokenPrompt> {
    let engine = model.engine();
    let limits = model.media();
    match encoded {
        None => limits.check_for(&engine, &prompt.media)?,
        Some(encoded) if encoded.len() == prompt.media.len() => {}
        Some(encoded) => {
            return Err(Error::invalid(format!(
                "the stream of the tag EMBEDDINGS has {} images for a prompt that has {}",
                encoded.len(),
                prompt.media.len()
            )));
        }
    }
    let mut texts = prompt.text.split(media_marker());
    let found = texts.clone().count() - 1;
    if found != prompt.media.len() {
        let message = format!(
            "the model's chat template writes {found} of the {} images and sounds of the conversation: it leaves the content of some messages out, or repeats it",
            prompt.media.len()
        );
        return Err(Error::invalid(message)
            .with_field("messages")
            .with_code("invalid_value"));
    }
    let salt = prompt.partner.as_ref().map_or("", |partner| &partner.salt);
    let vocab = model.vocab();
    let (mut tokens, mut tiles) = (Vec::new(), Vec::new());
    // Byte at which the next text begins.
    let mut begin = 0;
    let mut last_turn = None;
    for (index, text) in texts.by_ref().enumerate() {
        if let Some(before) = index.checked_sub(1) {
            let medium = match encoded {
                Some(encoded) => Arc::clone(&encoded[before]),
                None => limits.read(&engine, salt, &prompt.media[before])?,
            };
            medium.append_to(&mut tokens, &mut tiles);
        }
        if !text.is_empty() {
            let read = vocab.tokenize_while(text, false, true, goes_on);
            let read = read.map_err(|error| not_tokenized(error, None))?;
            let at = prompt.last_turn.and_then(|at| at.checked_sub(begin));
            if let Some(at) = at.filter(|at| *at <= text.len()) {
                let turn = turn(&**vocab, text, &read, at);
                last_turn = turn.map(|turn| (tokens.len() + turn) as u32);
            }
            tokens.extend(read);
        }
        begin += text.len() + media_marker().len();
    }
    Ok(TokenPrompt {
        is_cut: false,
        tokens,
        tiles: tiles.into(),
        asked: None,
        last_turn,
    })
}
