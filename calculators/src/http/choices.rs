//! Answers with choices, as in OpenAI's chat and completions: whole bodies, or streams of unnamed
//! chunks.

use graphmill_engine::{Error, Result};
use graphmill_llm::Usage as Counts;
use serde::Serialize;

use super::body::{to_json, whole};
use super::dialect::AnswerWriter;
use super::wire::{Answer, UsageField};
use crate::payload::{
    EchoedText, Finish, HttpResponse, TextChunk, TextLogprob, TextRequest, ToolCallStart,
};

/// How a dialect writes a choice.
pub(super) trait Form: Send {
    /// What a whole answer calls itself.
    const WHOLE: &'static str;
    /// What a chunk of a stream calls itself.
    const CHUNK: &'static str;

    /// The events that a stream begins with.
    fn begin(events: &mut Events<'_>) -> Result<()>;

    /// What a chunk adds to a text that begins at this character. Log probabilities go with the
    /// first event of the chunk.
    fn extend(events: &mut Events<'_>, chunk: &TextChunk, begins: usize) -> Result<()>;

    /// A choice of a whole answer.
    fn choice<'a>(request: &TextRequest, index: u32, choice: &'a Choice) -> impl Serialize + 'a;
}

/// Writes an answer in a form.
pub(super) struct ChoicesWriter<F> {
    choices: Vec<Choice>,
    /// Whether the stream has begun.
    begun: bool,
    form: std::marker::PhantomData<F>,
}

/// What is known of one choice.
#[derive(Clone, Default)]
pub(super) struct Choice {
    /// Its text, kept where the answer is one body.
    pub(super) text: String,
    /// The model's reasoning, and the calls of tools; kept likewise.
    pub(super) reasoning: String,
    pub(super) tool_calls: Vec<Call>,
    /// The tokens of all that, and the prompt that is repeated before it; kept likewise.
    pub(super) logprobs: Vec<TextLogprob>,
    pub(super) echo: EchoedText,
    /// Characters of the prompt before the text.
    pub(super) begins: usize,
    pub(super) finish: Option<Finish>,
}

/// A call of a tool whose pieces were joined.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) start: ToolCallStart,
    pub(super) arguments: String,
}

impl<F: Form> ChoicesWriter<F> {
    pub(super) fn new(request: &TextRequest) -> Self {
        Self {
            choices: vec![Choice::default(); request.choices()],
            begun: false,
            form: std::marker::PhantomData,
        }
    }
}

impl<F: Form> AnswerWriter for ChoicesWriter<F> {
    fn take(
        &mut self,
        request: &TextRequest,
        chunk: &TextChunk,
        usage: &Counts,
        out: &mut Vec<HttpResponse>,
    ) -> Result<bool> {
        let count = self.choices.len();
        let choice = self.choices.get_mut(chunk.index as usize).ok_or_else(|| {
            Error::internal(format!("text for choice {} of {count}", chunk.index))
        })?;
        if choice.finish.is_some() {
            return Ok(false);
        }
        choice.finish = chunk.finish;
        if let Some(echo) = &chunk.echo {
            choice.begins = echo.text.chars().count();
        }
        let begins = choice.begins;
        if request.stream {
            let mut events = Events::new(request, F::CHUNK, usage, out);
            if !self.begun {
                F::begin(&mut events)?;
            }
            F::extend(&mut events, chunk, begins)?;
            self.begun = true;
        } else {
            choice.keep(chunk)?;
        }
        if self.choices.iter().any(|choice| choice.finish.is_none()) {
            return Ok(false);
        }
        if request.stream {
            let events = Events::new(request, F::CHUNK, usage, out);
            events.end(usage)?;
        } else {
            let choices = self.choices.iter().zip(0..);
            let choices: Vec<_> = choices
                .map(|(choice, index)| F::choice(request, index, choice))
                .collect();
            let mut answer = Answer::new(request, F::WHOLE, choices);
            answer.usage = UsageField::Counts(usage.into());
            out.push(whole(to_json(&answer)?));
        }
        Ok(true)
    }
}

impl Choice {
    /// Adds a chunk to what is kept for a whole answer.
    fn keep(&mut self, chunk: &TextChunk) -> Result<()> {
        if let Some(echo) = &chunk.echo {
            self.text.push_str(&echo.text);
            self.echo.clone_from(echo);
        }
        self.text.push_str(&chunk.text);
        self.logprobs.extend_from_slice(&chunk.logprobs);
        self.reasoning.push_str(&chunk.reasoning);
        for delta in &chunk.tool_calls {
            if let Some(start) = &delta.start {
                self.tool_calls.push(Call {
                    start: start.clone(),
                    arguments: String::new(),
                });
            }
            let call = self.tool_calls.get_mut(delta.index as usize);
            let call =
                call.ok_or_else(|| Error::internal("a tool call came without its beginning"))?;
            call.arguments.push_str(&delta.arguments);
        }
        Ok(())
    }
}

/// Writes the events of one request.
pub(super) struct Events<'a> {
    request: &'a TextRequest,
    /// What each event calls itself.
    object: &'static str,
    /// What each event says of token counts.
    usage: UsageField,
    out: &'a mut Vec<HttpResponse>,
}

impl<'a> Events<'a> {
    fn new(
        request: &'a TextRequest,
        object: &'static str,
        usage: &Counts,
        out: &'a mut Vec<HttpResponse>,
    ) -> Self {
        Self {
            request,
            object,
            usage: if request.continuous_usage {
                UsageField::Counts(usage.into())
            } else if request.include_usage {
                UsageField::Null
            } else {
                UsageField::Absent
            },
            out,
        }
    }

    /// The request that is answered.
    pub(super) fn request(&self) -> &'a TextRequest {
        self.request
    }

    /// Writes an event of one choice.
    pub(super) fn event(&mut self, choice: impl Serialize) -> Result<()> {
        let mut chunk = Answer::new(self.request, self.object, [choice]);
        chunk.usage = self.usage;
        self.out.push(HttpResponse::Event(to_json(&chunk)?));
        Ok(())
    }

    /// Ends the stream, after the token counts where these are asked for.
    fn end(self, usage: &Counts) -> Result<()> {
        if self.request.include_usage {
            let mut last = Answer::new(self.request, self.object, [(); 0]);
            last.usage = UsageField::Counts(usage.into());
            self.out.push(HttpResponse::Event(to_json(&last)?));
        }
        self.out.push(HttpResponse::Done);
        Ok(())
    }
}
