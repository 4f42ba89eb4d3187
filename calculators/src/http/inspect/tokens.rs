//! Tokens and their text, as in `tokenize`, `detokenize` and `render`.

use graphmill_dialects::bodies::prompts::Tokenize;
use graphmill_engine::{Error, Result};
use graphmill_llm::{Token, Vocab};
use serde_json::{Value, json};

use super::super::fields::invalid;
use crate::llm::LanguageModel;
use crate::payload::{MediaKind, Prompt, Prompts, TemplatedPrompt, TokenPrompts, media_marker};
use crate::text::nodes::media;

/// Returns the answer of `tokenize`. If `nested`, the answer has a list for each text.
pub(super) fn tokenized(
    vocab: &dyn Vocab,
    form: &Tokenize,
    nested: bool,
    prompts: &TokenPrompts,
) -> Value {
    let lists = prompts.0.iter();
    let lists: Vec<Vec<Token>> = lists
        .map(|prompt| fitted(vocab, form, prompt.shown_tokens()))
        .collect();
    let list = |entry: &dyn Fn(&Token) -> Value| {
        let mut lists = lists
            .iter()
            .map(|tokens| tokens.iter().map(entry).collect());
        if nested {
            Value::Array(lists.collect())
        } else {
            lists.next().unwrap_or_default()
        }
    };
    let mut answer = json!({
        "count": lists.iter().map(Vec::len).sum::<usize>(),
        "max_model_len": vocab.context_length(),
        "tokens": list(&|token| {
            if form.with_pieces {
                json!({ "id": token, "piece": piece(vocab, *token) })
            } else {
                json!(token)
            }
        }),
    });
    if form.return_token_strs {
        answer["token_strs"] = list(&|token| text(vocab, &[*token]).into());
    }
    answer
}

/// Returns the answer of `encode`. If `nested`, the answer has a list for each text.
pub(super) fn encoded(nested: bool, prompts: &TokenPrompts) -> Value {
    let lists = prompts.0.iter();
    let (tokens, lengths): (Vec<Value>, Vec<Value>) = lists
        .map(|prompt| (json!(prompt.shown_tokens()), json!(prompt.tokens.len())))
        .unzip();
    if nested {
        return json!({ "input_ids": tokens, "length": lengths });
    }
    json!({ "input_ids": tokens.first(), "length": lengths.first() })
}

/// Cuts or pads a list of tokens as the request asks.
fn fitted(vocab: &dyn Vocab, form: &Tokenize, mut tokens: Vec<Token>) -> Vec<Token> {
    let Some(length) = form.max_length else {
        return tokens;
    };
    let length = length as usize;
    tokens.truncate(length);
    if let Some(pad) = vocab.pad().filter(|_| form.pad_to_max_length) {
        let missing = length - tokens.len();
        let is_left = form.padding_side.as_deref() == Some("left");
        let at = if is_left { 0 } else { tokens.len() };
        tokens.splice(at..at, std::iter::repeat_n(pad, missing));
    }
    tokens
}

/// Returns a token's text, or its bytes if they are not valid UTF-8.
fn piece(vocab: &dyn Vocab, token: Token) -> Value {
    let mut bytes = Vec::new();
    vocab.piece(token, true, &mut bytes);
    match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(bytes) => json!(bytes.into_bytes()),
    }
}

/// Returns the text of tokens, including special ones. Invalid bytes become U+FFFD.
pub(super) fn text(vocab: &dyn Vocab, tokens: &[Token]) -> String {
    let mut bytes = Vec::new();
    for token in tokens {
        vocab.piece(*token, true, &mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the answer of `detokenize`, with the text as vLLM's `prompt` and llama-server's
/// `content`.
pub(super) fn detokenized(vocab: &dyn Vocab, prompts: &TokenPrompts) -> Result<Value> {
    let tokens = prompts.0.first();
    let tokens = tokens.map_or(&[][..], |prompt| prompt.tokens.as_slice());
    if let Some(index) = tokens.iter().position(|token| !vocab.contains(*token)) {
        let (last, token) = (vocab.n_vocab() - 1, tokens[index]);
        let message = format!("must be a token of the model, 0 to {last}, not {token}");
        return Err(invalid(format!("tokens[{index}]"), message));
    }
    let text = text(vocab, tokens);
    Ok(json!({ "prompt": text, "content": text }))
}

/// Returns the text of a prompt, with a placeholder for each image and sound.
fn shown(prompt: &TemplatedPrompt) -> String {
    let text = prompt.text.clone();
    prompt.media.iter().fold(text, |text, medium| {
        let word = match medium.kind {
            MediaKind::Image => "<__image__>",
            MediaKind::Sound => "<__sound__>",
        };
        text.replacen(media_marker(), word, 1)
    })
}

/// Returns each prompt as the model would see it.
pub(super) fn rendered(
    model: &LanguageModel,
    prompts: &Prompts,
    tokens: &TokenPrompts,
) -> Result<Vec<Value>> {
    if prompts.0.len() != tokens.0.len() {
        return Err(Error::internal(format!(
            "{} prompts came with the tokens of {}",
            prompts.0.len(),
            tokens.0.len()
        )));
    }
    let vocab = &**model.vocab();
    let pairs = prompts.0.iter().zip(&tokens.0);
    let rendered = pairs.map(|(prompt, tokens)| {
        let has_media = !tokens.tiles.is_empty();
        let is_cut = tokens.is_cut;
        let tokens = &tokens.shown_tokens();
        let is_known = |token: Token| vocab.contains(token) || (has_media && token < 0);
        if let Some(token) = tokens.iter().find(|token| !is_known(**token)) {
            let size = vocab.n_vocab();
            let message =
                format!("has the token {token}, which is not in the vocabulary of {size} tokens");
            return Err(invalid("prompt", message));
        }
        let text = match prompt {
            _ if is_cut => text(vocab, tokens),
            Prompt::Text(text) | Prompt::Spelled { text, .. } => text.clone(),
            Prompt::Templated(prompt) => match media::told(model, prompt, None) {
                Some(told) if !has_media => shown(&told),
                _ => shown(prompt),
            },
            Prompt::Gap { .. } | Prompt::Tokens(_) => text(vocab, tokens),
            Prompt::Vectors(_) => String::new(),
        };
        Ok(json!({ "prompt": text, "token_ids": tokens, "count": tokens.len() }))
    });
    rendered.collect()
}
