//! Answers with choices, as in OpenAI's chat and completions: whole bodies, or streams of unnamed
//! chunks.

use graphmill_engine::{Error, Result};
use serde::Serialize;
use serde_json::Value;

use super::dialect::{AnswerPackets, AnswerWriter};
use super::logprobs::PromptLogprobs;
use super::wire;
use crate::payload::{
    EchoedText, Finish, HttpResponse, TextChunk, TextLogprob, TextRequest, Token, ToolCallStart,
};

/// Name of the software in every answer. It changes when a new version may change answers.
const SYSTEM_FINGERPRINT: &str = concat!("graphmill-", env!("CARGO_PKG_VERSION"));

/// The form of choices in a dialect.
pub(super) trait Form: Send {
    /// Value of `object` in a whole answer.
    const WHOLE: &'static str;
    /// Value of `object` in a chunk of a stream.
    const CHUNK: &'static str;

    /// Writes the events with which a stream begins.
    fn begin(events: &mut Events<'_, '_>) -> Result<()>;

    /// True if an answer has its prompt beside its choices, false if each choice has it.
    const PROMPT_BESIDE: bool;

    /// Writes the events of a chunk whose text begins at this character. Log probabilities go with
    /// the first event of the chunk.
    fn extend(events: &mut Events<'_, '_>, chunk: &TextChunk, begins: usize) -> Result<()>;

    /// Returns a choice of a whole answer.
    fn choice<'a>(request: &TextRequest, index: u32, choice: &'a Choice) -> impl Serialize + 'a;
}

/// A writer of answers in a form.
pub(super) struct ChoicesWriter<F> {
    choices: Vec<Choice>,
    /// True once the stream has begun.
    begun: bool,
    form: std::marker::PhantomData<F>,
}

/// A choice, as far as it has come.
#[derive(Clone, Default)]
pub(super) struct Choice {
    /// Text of the choice. Kept for an answer in one body.
    pub(super) text: String,
    /// Reasoning and tool calls of the model, kept for the same.
    pub(super) reasoning: String,
    pub(super) tool_calls: Vec<JoinedCall>,
    /// Tokens of the choice and the prompt before it, kept for the same.
    pub(super) logprobs: Vec<TextLogprob>,
    pub(super) ids: Vec<Token>,
    pub(super) echo: EchoedText,
    /// Number of characters of the prompt before the text.
    pub(super) begins: usize,
    pub(super) finish: Option<Finish>,
}

/// A tool call, joined from its pieces.
#[derive(Clone)]
pub(super) struct JoinedCall {
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
    fn take(&mut self, chunk: &TextChunk, out: &mut AnswerPackets<'_>) -> Result<bool> {
        let request = out.request;
        let count = self.choices.len();
        let choice = self.choices.get_mut(chunk.index as usize).ok_or_else(|| {
            Error::internal(format!("text for choice {} of {count}", chunk.index))
        })?;
        if choice.finish.is_some() {
            return Ok(false);
        }
        choice.finish = chunk.finish;
        if let Some(echo) = chunk.echo.as_ref().filter(|_| request.told.prompt) {
            choice.begins = echo.text.chars().count();
        }
        let begins = choice.begins;
        if request.stream {
            let mut events = Events {
                object: F::CHUNK,
                prompt: chunk
                    .echo
                    .as_deref()
                    .filter(|_| F::PROMPT_BESIDE && !self.begun),
                usage: if request.continuous_usage {
                    Some(wire::usage(&out.usage))
                } else {
                    request.include_usage.then_some(Value::Null)
                },
                out,
            };
            if !std::mem::replace(&mut self.begun, true) {
                F::begin(&mut events)?;
            }
            F::extend(&mut events, chunk, begins)?;
        } else {
            choice.keep(chunk, request.told.prompt)?;
        }
        if self.choices.iter().any(|choice| choice.finish.is_none()) {
            return Ok(false);
        }
        let usage = Some(wire::usage(&out.usage));
        if request.stream {
            if request.include_usage {
                out.event(&answer(request, F::CHUNK, [(); 0], usage.as_ref(), None))?;
            }
            out.packets.push(HttpResponse::Done);
        } else {
            let choices = self.choices.iter().zip(0..);
            let choices: Vec<_> = choices
                .map(|(choice, index)| F::choice(request, index, choice))
                .collect();
            let first = self.choices.first().filter(|_| F::PROMPT_BESIDE);
            let prompt = first.map(|choice| &choice.echo);
            out.whole(&answer(request, F::WHOLE, choices, usage.as_ref(), prompt))?;
        }
        Ok(true)
    }
}

impl Choice {
    /// Adds a chunk to the parts that are kept for a whole answer.
    fn keep(&mut self, chunk: &TextChunk, tells_prompt: bool) -> Result<()> {
        if let Some(echo) = &chunk.echo {
            if tells_prompt {
                self.text.push_str(&echo.text);
            }
            self.echo.clone_from(echo);
        }
        self.ids.extend_from_slice(&chunk.ids);
        self.text.push_str(&chunk.text);
        self.logprobs.extend_from_slice(&chunk.logprobs);
        self.reasoning.push_str(&chunk.reasoning);
        for delta in &chunk.tool_calls {
            if let Some(start) = &delta.start {
                self.tool_calls.push(JoinedCall {
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

/// A writer of the events of one request.
pub(super) struct Events<'a, 'r> {
    /// Value of `object` in each event.
    object: &'static str,
    /// Prompt to be repeated in the next event.
    prompt: Option<&'a EchoedText>,
    /// Token counts of each event.
    usage: Option<Value>,
    out: &'a mut AnswerPackets<'r>,
}

impl<'r> Events<'_, 'r> {
    /// Returns the request that is answered.
    pub(super) fn request(&self) -> &'r TextRequest {
        self.out.request
    }

    /// Writes an event of one choice.
    pub(super) fn event(&mut self, choice: impl Serialize) -> Result<()> {
        let (usage, prompt) = (self.usage.as_ref(), self.prompt.take());
        let event = answer(self.out.request, self.object, [choice], usage, prompt);
        self.out.event(&event)
    }
}

/// Writes an answer, or a chunk of one. In streams that ask for token counts, `usage` is null in
/// all chunks but the last. Other streams have no `usage`, because clients add up all that they
/// see.
fn answer<'a, C>(
    request: &'a TextRequest,
    object: &'static str,
    choices: C,
    usage: Option<&'a Value>,
    prompt: Option<&'a EchoedText>,
) -> ChoicesBody<'a, C> {
    ChoicesBody {
        id: &request.id,
        object,
        created: request.created,
        model: &request.model,
        system_fingerprint: SYSTEM_FINGERPRINT,
        choices,
        usage,
        prompt: prompt.map(|prompt| ToldPrompt::new(request, prompt)),
    }
}

/// An answer with choices, or a chunk of one.
#[derive(Serialize)]
struct ChoicesBody<'a, C> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'static str,
    choices: C,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Value>,
    #[serde(flatten)]
    prompt: Option<ToldPrompt<'a>>,
}

/// The parts of an answer that describe the prompt.
#[derive(Serialize)]
pub(super) struct ToldPrompt<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_logprobs: Option<PromptLogprobs<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<&'a [Token]>,
}

impl<'a> ToldPrompt<'a> {
    pub(super) fn new(request: &TextRequest, prompt: &'a EchoedText) -> Self {
        let logprobs = request.told.prompt_logprobs;
        Self {
            prompt_logprobs: logprobs.map(|most| PromptLogprobs(&prompt.logprobs, most)),
            prompt_token_ids: request.told.ids.then_some(&prompt.tokens),
        }
    }
}
