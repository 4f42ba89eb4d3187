//! Texts of completions, whole and in chunks.

use graphmill_engine::Result;
use serde::Serialize;

use crate::http::{
    choices::{Choice, Events, Form},
    logprobs::TextLogprobs,
};
use crate::payload::{Finish, TextChunk, TextRequest};

/// Writes the choices of a completion.
pub(super) struct Texts;

impl Form for Texts {
    const WHOLE: &'static str = "text_completion";
    const CHUNK: &'static str = "text_completion";

    fn begin(_: &mut Events<'_>) -> Result<()> {
        Ok(())
    }

    fn extend(events: &mut Events<'_>, chunk: &TextChunk, begins: usize) -> Result<()> {
        let (index, finish) = (chunk.index, chunk.finish);
        let mut event = |text, logprobs, finish: Option<Finish>| {
            events.event(TextChoice {
                text,
                index,
                logprobs,
                finish_reason: finish.map(Finish::as_str),
            })
        };
        if let Some(echo) = &chunk.echo {
            event(
                &echo.text,
                TextLogprobs::from_chunk(&echo.logprobs, 0),
                None,
            )?;
        }
        if !chunk.text.is_empty() || finish.is_some() {
            let logprobs = TextLogprobs::from_chunk(&chunk.logprobs, begins);
            event(&chunk.text, logprobs, finish)?;
        }
        Ok(())
    }

    fn choice<'a>(request: &TextRequest, index: u32, choice: &'a Choice) -> impl Serialize + 'a {
        TextChoice {
            text: &choice.text,
            index,
            logprobs: request.logprobs.then(|| {
                let mut logprobs = TextLogprobs::default();
                logprobs.extend(&choice.echo.logprobs, 0);
                logprobs.extend(&choice.logprobs, choice.begins);
                logprobs
            }),
            finish_reason: choice.finish.map(Finish::as_str),
        }
    }
}

/// A choice of a text completion, whole or chunk.
#[derive(Serialize)]
struct TextChoice<'a> {
    text: &'a str,
    index: u32,
    logprobs: Option<TextLogprobs>,
    finish_reason: Option<&'static str>,
}
