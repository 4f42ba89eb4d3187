//! Texts of completions in answers: whole ones and chunks.

use graphmill_engine::Result;
use serde::Serialize;

use crate::http::{
    choices::{Choice, Events, Form, ToldPrompt},
    logprobs::TextLogprobs,
};
use crate::payload::{Finish, TextChunk, TextRequest, Token};

/// The form of the choices of a completion.
pub(super) struct CompletionForm;

impl Form for CompletionForm {
    const WHOLE: &'static str = "text_completion";
    const CHUNK: &'static str = "text_completion";
    const PROMPT_BESIDE: bool = false;

    fn begin(_: &mut Events<'_, '_>) -> Result<()> {
        Ok(())
    }

    fn extend(events: &mut Events<'_, '_>, chunk: &TextChunk, begins: usize) -> Result<()> {
        let (index, finish) = (chunk.index, chunk.finish);
        let (request, told) = (events.request(), events.request().told);
        let prompt = chunk.echo.as_deref();
        let mut tells = prompt.map(|prompt| ToldPrompt::new(request, prompt));
        let mut event = |text, logprobs, ids, finish: Option<Finish>| {
            events.event(TextChoice {
                text,
                index,
                logprobs,
                finish_reason: finish.map(Finish::as_str),
                token_ids: told.ids.then_some(ids),
                prompt: tells.take(),
            })
        };
        if let Some(prompt) = prompt.filter(|_| told.prompt) {
            let logprobs = TextLogprobs::from_chunk(&prompt.logprobs, 0, told.by_id);
            event(&prompt.text, logprobs, &[], None)?;
        }
        if !chunk.text.is_empty() || finish.is_some() || !chunk.ids.is_empty() {
            let logprobs = TextLogprobs::from_chunk(&chunk.logprobs, begins, told.by_id);
            event(&chunk.text, logprobs, &chunk.ids, finish)?;
        }
        Ok(())
    }

    fn choice<'a>(request: &TextRequest, index: u32, choice: &'a Choice) -> impl Serialize + 'a {
        let told = request.told;
        TextChoice {
            text: &choice.text,
            index,
            logprobs: request.logprobs.then(|| {
                let mut logprobs = TextLogprobs::default();
                if told.prompt {
                    logprobs.extend(&choice.echo.logprobs, 0, told.by_id);
                }
                logprobs.extend(&choice.logprobs, choice.begins, told.by_id);
                logprobs
            }),
            finish_reason: choice.finish.map(Finish::as_str),
            token_ids: told.ids.then_some(&choice.ids),
            prompt: Some(ToldPrompt::new(request, &choice.echo)),
        }
    }
}

/// A choice of a text completion, in a whole answer or a chunk.
#[derive(Serialize)]
struct TextChoice<'a> {
    text: &'a str,
    index: u32,
    logprobs: Option<TextLogprobs>,
    finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<&'a [Token]>,
    #[serde(flatten)]
    prompt: Option<ToldPrompt<'a>>,
}
