//! Tokens and their text, as `tokenize`, `detokenize` and `render` list them.

use graphmill_engine::{Error, Result};
use graphmill_llm::{Token, Vocab};
use serde_json::{Map, Value, json};

use super::super::fields::invalid;
use crate::payload::{
    MediaKind, Prompt, Prompts, TemplatedPrompt, TokenPrompts, Tokenization, media_marker,
};

/// The answer of `tokenize`.
pub(super) fn tokenized(vocab: &dyn Vocab, how: Tokenization, prompts: &TokenPrompts) -> Value {
    let lists: Vec<Vec<Token>> = prompts
        .0
        .iter()
        .map(|prompt| fitted(vocab, how, &prompt.tokens))
        .collect();
    let count: usize = lists.iter().map(Vec::len).sum();
    let nest = |mut lists: Vec<Value>| match lists.pop() {
        Some(only) if !how.nested => only,
        last => lists.into_iter().chain(last).collect(),
    };
    let listed = |tokens: &Vec<Token>| -> Value {
        if how.with_pieces {
            let token = |token: &Token| json!({ "id": token, "piece": piece(vocab, *token) });
            tokens.iter().map(token).collect()
        } else {
            json!(tokens)
        }
    };
    let mut answer = json!({
        "count": count,
        "max_model_len": vocab.context_length(),
        "tokens": nest(lists.iter().map(listed).collect()),
    });
    if how.token_strs {
        let texts = |tokens: &Vec<Token>| -> Value {
            let text = |token: &Token| text(vocab, std::slice::from_ref(token));
            tokens.iter().map(text).collect()
        };
        answer["token_strs"] = nest(lists.iter().map(texts).collect());
    }
    answer
}

/// Cuts or fills a list as asked.
fn fitted(vocab: &dyn Vocab, how: Tokenization, tokens: &[Token]) -> Vec<Token> {
    let mut tokens = tokens.to_vec();
    let Some(length) = how.max_length else {
        return tokens;
    };
    let length = length as usize;
    tokens.truncate(length);
    if let Some(pad) = vocab.pad().filter(|_| how.pad) {
        let missing = length - tokens.len();
        let at = if how.pad_left { 0 } else { tokens.len() };
        tokens.splice(at..at, std::iter::repeat_n(pad, missing));
    }
    tokens
}

/// A token's text, or its bytes where they are no whole characters.
fn piece(vocab: &dyn Vocab, token: Token) -> Value {
    let mut bytes = Vec::new();
    vocab.piece(token, true, &mut bytes);
    match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(bytes) => json!(bytes.into_bytes()),
    }
}

/// The text of tokens, special ones spelled out; what is no character is U+FFFD.
pub(super) fn text(vocab: &dyn Vocab, tokens: &[Token]) -> String {
    let mut bytes = Vec::new();
    for token in tokens {
        vocab.piece(*token, true, &mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The answer of `detokenize`: vLLM has it as `prompt` and llama-server as `content`.
pub(super) fn detokenized(vocab: &dyn Vocab, prompts: &TokenPrompts) -> Result<Value> {
    let tokens = prompts.0.first();
    let tokens = tokens.map_or(&[][..], |prompt| prompt.tokens.as_slice());
    if let Some(index) = tokens.iter().position(|token| !vocab.contains(*token)) {
        let size = vocab.n_vocab();
        let message = format!(
            "must be a token of the model, 0 to {}, not {}",
            size - 1,
            tokens[index]
        );
        return Err(invalid(format!("tokens[{index}]"), message));
    }
    let text = text(vocab, tokens);
    Ok(json!({ "prompt": text, "content": text }))
}

/// A prompt in which images and sounds are shown by a word for each.
fn shown(prompt: &TemplatedPrompt) -> String {
    let mut texts = prompt.text.split(media_marker());
    let mut shown = texts.next().unwrap_or_default().to_owned();
    for (medium, text) in prompt.media.iter().zip(texts) {
        shown.push_str(match medium.kind {
            MediaKind::Image => "<__image__>",
            MediaKind::Sound => "<__sound__>",
        });
        shown.push_str(text);
    }
    shown
}

/// Each prompt as the model would see it.
pub(super) fn rendered(
    vocab: &dyn Vocab,
    prompts: &Prompts,
    tokens: &TokenPrompts,
) -> Result<Vec<Map<String, Value>>> {
    if prompts.0.len() != tokens.0.len() {
        return Err(Error::internal(format!(
            "{} prompts came with the tokens of {}",
            prompts.0.len(),
            tokens.0.len()
        )));
    }
    let pairs = prompts.0.iter().zip(&tokens.0);
    let rendered = pairs.map(|(prompt, tokens)| {
        let has_media = !tokens.tiles.is_empty();
        let tokens = &tokens.tokens;
        let is_known = |token: Token| vocab.contains(token) || (has_media && token < 0);
        if let Some(token) = tokens.iter().find(|token| !is_known(**token)) {
            let size = vocab.n_vocab();
            let message =
                format!("has the token {token}, which is not in the vocabulary of {size} tokens");
            return Err(invalid("prompt", message));
        }
        let text = match prompt {
            Prompt::Text(text) | Prompt::Spelled { text, .. } => text.clone(),
            Prompt::Templated(prompt) => shown(prompt),
            Prompt::Gap { .. } => text(vocab, tokens),
            Prompt::Tokens(tokens) => text(vocab, tokens),
        };
        let mut fields = Map::new();
        fields.insert("prompt".to_owned(), text.into());
        fields.insert("token_ids".to_owned(), json!(tokens));
        fields.insert("count".to_owned(), tokens.len().into());
        Ok(fields)
    });
    rendered.collect()
}
