//! Functions that the nodes share: they tokenize texts, submit them to an engine, and turn its
//! refusals into errors for the client.

use graphmill_dialects::error::invalid;
use graphmill_engine::{CancelToken, Cx, Error, Events, Result};
use graphmill_llm::embed::{EmbeddingHandle, EmbeddingOutcome, EmbeddingRefusal, EmbeddingRequest};
use graphmill_llm::{Token, TokenizeError};

use super::EmbeddingModel;
use crate::llm::not_tokenized;
use crate::payload::{Account, Prompt, Tally, TemplatedPrompt};

/// Refuses a request for which the engine has no room, before anything is computed for it.
pub(super) fn check_room(model: &EmbeddingModel) -> Result<()> {
    let room = model.engine().check_room();
    room.map_err(|refusal| refused(refusal, |_| String::new()))
}

/// Returns the maximum number of tokens of a text, after any limit of the request.
pub(super) fn limit(model: &EmbeddingModel, most: Option<u32>) -> Result<usize> {
    let context = model.engine().context_length();
    match most.map(|most| most as usize) {
        Some(most) if most > context => {
            let message = format!("is {most}, but the model reads at most {context} tokens");
            Err(invalid("truncate_prompt_tokens", message))
        }
        most => Ok(most.unwrap_or(context)),
    }
}

/// Tokenizes a text. `cut` has the maximum number of tokens, and true to cut a longer text at its
/// beginning, false at its end. `None` cuts nothing.
pub(super) fn tokenize(
    model: &EmbeddingModel,
    text: &Prompt,
    cut: Option<(usize, bool)>,
    cancel: &CancelToken,
    field: impl Fn() -> String,
) -> Result<Vec<Token>> {
    let engine = model.engine();
    let vocab = engine.vocab();
    let goes_on = || !cancel.is_cancelled();
    let read = |text: &str| vocab.tokenize_while(text, true, false, &goes_on);
    let mut tokens = match text {
        Prompt::Tokens(tokens) => tokens.clone(),
        Prompt::Gap { .. } | Prompt::Vectors(_) => {
            let message = "a text with a gap has no vector, nor have vectors";
            return Err(Error::invalid(message).with_field(field()));
        }
        Prompt::Text(text)
        | Prompt::Templated(TemplatedPrompt { text, .. })
        | Prompt::Spelled { text, .. } => {
            match read(text) {
                // No text with a valid number of tokens is longer than this.
                Err(TokenizeError::TooLarge { limit, .. }) if matches!(cut, Some((_, true))) => {
                    read(&text[text.ceil_char_boundary(text.len().saturating_sub(limit))..])
                }
                Err(TokenizeError::TooLarge { limit, .. }) if cut.is_some() => {
                    read(&text[..text.floor_char_boundary(limit)])
                }
                read => read,
            }
            .map_err(|error| not_tokenized(error, Some(field())))?
        }
    };
    if let Some((limit, cuts_beginning)) = cut.filter(|(limit, _)| tokens.len() > *limit) {
        // The tokens that begin and end every text are kept.
        let ends = read("").map_err(|error| not_tokenized(error, Some(field())))?;
        let (begin, end) = if cuts_beginning {
            let kept = usize::from(!ends.is_empty() && tokens.first() == ends.first());
            (kept, kept + tokens.len() - limit)
        } else {
            let kept = usize::from(!ends.is_empty() && tokens.last() == ends.last());
            (limit - kept, tokens.len() - kept)
        };
        tokens.drain(begin..end);
    }
    Ok(tokens)
}

/// Submits texts to the engine, whose outcome comes as an event, and returns the number of their
/// tokens, too. `field` returns the request's field for the text of an index.
pub(super) fn submit(
    model: &EmbeddingModel,
    texts: Vec<Vec<Token>>,
    events: Events<EmbeddingOutcome>,
    cx: &mut Cx<'_>,
    field: impl Fn(usize) -> String,
) -> Result<(EmbeddingHandle, u32)> {
    let tokens = texts.iter().map(Vec::len).sum::<usize>() as u32;
    if let Some(tally) = Tally::find(cx.run()) {
        tally.count(cx.node_name(), |counts| counts.prompt += tokens);
    }
    let events = cx.sender(events);
    let mut request = EmbeddingRequest::new(texts, move |outcome| {
        // Fails if the session has ended: nobody waits for the outcome then.
        events.send(outcome).ok();
    });
    request.tenant = Account::find(cx.run()).and_then(|account| account.tenant);
    let taken = model.engine().submit(request);
    let handle = taken.map_err(|refusal| refused(refusal, field))?;
    Ok((handle, tokens))
}

/// Describes the wait of a node whose texts an engine computes.
pub(super) fn waits_for(model: &EmbeddingModel, handle: &EmbeddingHandle) -> String {
    let engine = model.engine();
    let (computed, texts) = (handle.computed(), handle.texts());
    let status = engine.status();
    format!(
        "embedding engine `{}`: {computed} of {texts} texts are computed, requests in it: {}",
        status.model, status.requests
    )
}

fn refused(refusal: EmbeddingRefusal, field: impl Fn(usize) -> String) -> Error {
    let error = match &refusal {
        EmbeddingRefusal::NoText => Error::invalid("there is no text").with_field("input"),
        EmbeddingRefusal::EmptyText { index } => invalid(field(*index), "has no tokens"),
        EmbeddingRefusal::TextTooLong {
            index,
            n_tokens,
            limit,
        } => {
            let message = format!("has {n_tokens} tokens, but the model takes at most {limit}");
            invalid(field(*index), message).with_code("context_length_exceeded")
        }
        EmbeddingRefusal::InvalidToken {
            index,
            token,
            position,
            n_vocab,
        } => {
            let field = field(*index);
            Error::invalid(format!(
                "token {token} at position {position} of `{field}` is not in the vocabulary of {n_vocab} tokens"
            ))
            .with_field(field)
            .with_code("invalid_value")
        }
        EmbeddingRefusal::QueueFull { .. } => Error::exhausted(refusal.to_string()),
        EmbeddingRefusal::Stopped | EmbeddingRefusal::Failed(_) => {
            Error::unavailable(refusal.to_string())
        }
    };
    error.with_source(refusal)
}
