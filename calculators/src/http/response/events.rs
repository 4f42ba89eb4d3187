//! The events of a stream.

use graphmill_engine::Result;
use serde::Serialize;

use super::super::{
    logprobs::{ChatLogprobs, TextLogprobs},
    wire::{Answer, ChatDelta, Delta, TextChoice, Usage, UsageField, finish_reason},
};
use super::json;
use crate::payload::{Endpoint, Finish, HttpResponse, TextChunk, TextRequest};

/// Writes events of one request.
pub(super) struct Events<'a> {
    request: &'a TextRequest,
    /// What each event says of token counts.
    usage: UsageField,
    out: &'a mut Vec<HttpResponse>,
}

impl<'a> Events<'a> {
    /// Of a request with these token counts so far.
    pub(super) fn new(
        request: &'a TextRequest,
        usage: impl FnOnce() -> Usage,
        out: &'a mut Vec<HttpResponse>,
    ) -> Self {
        Self {
            request,
            usage: if request.continuous_usage {
                UsageField::Counts(usage())
            } else if request.include_usage {
                UsageField::Null
            } else {
                UsageField::Absent
            },
            out,
        }
    }

    /// Names the role of each choice of a chat.
    pub(super) fn begin(&mut self) -> Result<()> {
        if self.request.endpoint == Endpoint::Completions {
            return Ok(());
        }
        for index in 0..self.request.choices() as u32 {
            let delta = Delta {
                role: Some("assistant"),
                content: Some(""),
                ..Delta::default()
            };
            self.chat(index, delta, None, None)?;
        }
        Ok(())
    }

    /// What a chunk adds to a text that begins at this character. Log probabilities go with the first event of the chunk.
    pub(super) fn extend(&mut self, chunk: &TextChunk, begins: usize) -> Result<()> {
        let (index, finish) = (chunk.index, chunk.finish);
        match self.request.endpoint {
            Endpoint::Chat | Endpoint::Responses | Endpoint::Messages => {
                let mut logprobs = ChatLogprobs::of_chunk(&chunk.logprobs);
                for delta in deltas(chunk, self.request.function_call) {
                    self.chat(index, delta, logprobs.take(), None)?;
                }
                // Text that a parser holds back has log probabilities all the same.
                if finish.is_some() || logprobs.is_some() {
                    self.chat(index, Delta::default(), logprobs, finish)?;
                }
            }
            Endpoint::Completions => {
                if let Some(echo) = &chunk.echo {
                    let logprobs = TextLogprobs::of_chunk(&echo.logprobs, 0);
                    self.text(index, &echo.text, logprobs, None)?;
                }
                if !chunk.text.is_empty() || finish.is_some() {
                    let logprobs = TextLogprobs::of_chunk(&chunk.logprobs, begins);
                    self.text(index, &chunk.text, logprobs, finish)?;
                }
            }
        }
        Ok(())
    }

    /// Ends the stream, after the token counts where these are asked for.
    pub(super) fn end(self, usage: Usage) -> Result<()> {
        if self.request.include_usage {
            let mut last = Answer::new(self.request, self.object(), [(); 0]);
            last.usage = UsageField::Counts(usage);
            self.out.push(HttpResponse::Event(json(&last)?));
        }
        self.out.push(HttpResponse::Done);
        Ok(())
    }

    fn chat(
        &mut self,
        index: u32,
        delta: Delta<'_>,
        logprobs: Option<ChatLogprobs<'_>>,
        finish: Option<Finish>,
    ) -> Result<()> {
        self.event(ChatDelta {
            index,
            delta,
            logprobs,
            finish_reason: finish.map(|finish| finish_reason(self.request, finish)),
        })
    }

    fn text(
        &mut self,
        index: u32,
        text: &str,
        logprobs: Option<TextLogprobs<'_>>,
        finish: Option<Finish>,
    ) -> Result<()> {
        self.event(TextChoice {
            text,
            index,
            logprobs,
            finish_reason: finish.map(Finish::as_str),
        })
    }

    fn event(&mut self, choice: impl Serialize) -> Result<()> {
        let mut chunk = Answer::new(self.request, self.object(), [choice]);
        chunk.usage = self.usage;
        self.out.push(HttpResponse::Event(json(&chunk)?));
        Ok(())
    }

    fn object(&self) -> &'static str {
        match self.request.endpoint {
            Endpoint::Chat | Endpoint::Responses | Endpoint::Messages => "chat.completion.chunk",
            Endpoint::Completions => "text_completion",
        }
    }
}

/// What a chunk adds to a message: reasoning, text and pieces of tool calls, each on its own.
fn deltas(chunk: &TextChunk, function_call: bool) -> impl Iterator<Item = Delta<'_>> {
    let given = |text| Some(text).filter(|text: &&str| !text.is_empty());
    let reasoning = given(&chunk.reasoning).map(|text| Delta {
        reasoning_content: Some(text),
        ..Delta::default()
    });
    let content = given(&chunk.text).map(|text| Delta {
        content: Some(text),
        ..Delta::default()
    });
    let calls = chunk.tool_calls.iter().map(move |call| {
        let mut delta = Delta::default();
        if function_call {
            delta.function_call = Some(call.into());
        } else {
            delta.tool_calls = vec![call.into()];
        }
        delta
    });
    reasoning.into_iter().chain(content).chain(calls)
}
