//! `OpenAIResponseCalculator`: writes the answer of the OpenAI dialect, whole or as a stream of chunks.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, NoOptions, Offset, OpenCx, Out, Result, register,
};
use graphmill_llm::Usage as Counts;
use serde::Serialize;

use super::dialect::PartsWriter;
use super::logprobs::{ChatLogprobs, TextLogprobs};
use super::wire::{
    Answer, ChatChoice, Function, Message, PromptTokensDetails, TextChoice, ToolCall, Usage,
    UsageField, finish_reason,
};
use crate::payload::{
    EchoedText, Endpoint, Finish, HttpResponse, PromptReport, TextChunk, TextLogprob, TextRequest,
    ToolCallStart,
};

mod events;

use events::Events;

/// A header lists no more names than fit in about so many bytes, and no more of each.
const MAX_IGNORED_BYTES: usize = 512;
const MAX_NAME_CHARACTERS: usize = 64;

/// Makes an answer of a request's text: one body when all choices have ended, or an event for each chunk.
///
/// A stream begins, with the first chunk of text, by naming the role once for each choice, the first choice first. Each choice
/// ends with a chunk of its finish reason. Token counts follow where the request asks for them. The output has a time
/// line of its own, a timestamp for each event. Fields of the request that nobody knows are listed in the header `x-ignored-fields`. A report, where `REPORT` is connected, is the whole answer.
///
/// ```pbtxt
/// input_stream: "REQUEST:request"
/// input_stream: "TEXT:text"
/// output_stream: "HTTP_RESPONSE_PAYLOAD:output"
/// node {
///   calculator: "OpenAIResponseCalculator"
///   input_stream: "REQUEST:request"
///   input_stream: "TEXT:text"
///   output_stream: "HTTP_RESPONSE_PAYLOAD:output"
/// }
/// ```
#[derive(Default)]
pub struct OpenAIResponse {
    request: Option<TextRequest>,
    choices: Vec<Choice>,
    /// Writes the answer, if the request's dialect has answers made of parts.
    parts: Option<PartsWriter>,
    /// Whether the stream has begun.
    begun: bool,
    /// The timestamp of the next event.
    next: i64,
}

/// What is known of one choice.
#[derive(Clone, Default)]
struct Choice {
    /// Its text, kept where the answer is one body.
    text: String,
    /// What was thought, and the calls of tools; kept likewise.
    reasoning: String,
    tool_calls: Vec<Call>,
    /// The tokens of all that, and the prompt that is repeated before it; kept likewise.
    logprobs: Vec<TextLogprob>,
    echo: EchoedText,
    /// Characters of the prompt before the text.
    begins: usize,
    finish: Option<Finish>,
    counts: Counts,
}

/// A call of a tool whose pieces were joined.
#[derive(Clone)]
struct Call {
    start: ToolCallStart,
    arguments: String,
}

/// The ports of [`OpenAIResponse`].
#[derive(Copy, Clone, Debug)]
pub struct OpenAIResponsePorts {
    request: In<TextRequest>,
    text: In<TextChunk>,
    report: In<PromptReport>,
    response: Out<HttpResponse>,
}

impl Calculator for OpenAIResponse {
    const NAME: &'static str = "OpenAIResponseCalculator";
    const DOC: &'static str = "Writes the answer of OpenAI's chat/completions and completions endpoints, whole or streamed.";
    type Options = NoOptions;
    type Ports = OpenAIResponsePorts;

    fn contract(c: &mut Contract, _: &NoOptions) -> OpenAIResponsePorts {
        c.offset(Offset::Unset);
        OpenAIResponsePorts {
            request: c.input("REQUEST"),
            text: c.input("TEXT"),
            report: c.optional("REPORT"),
            response: c.output("HTTP_RESPONSE_PAYLOAD"),
        }
    }

    fn open(_: &NoOptions, _: OpenAIResponsePorts, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self::default())
    }

    fn process(&mut self, io: OpenAIResponsePorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(request) = cx.take(io.request) {
            self.choices = vec![Choice::default(); request.choices()];
            self.parts = PartsWriter::of(request.endpoint);
            self.request = Some(request);
        }
        if let Some(PromptReport(report)) = cx.take(io.report) {
            cx.emit_at(io.response, self.next, whole(json(&report)?));
            return Ok(Flow::Stop);
        }
        let Some(chunk) = cx.take(io.text) else {
            return Ok(Flow::Continue);
        };
        let request = self
            .request
            .take()
            .ok_or_else(|| Error::internal("text came before the request it answers"))?;
        let mut out = Vec::new();
        if self.next == 0 {
            out.extend(ignored_fields(&request.ignored));
        }
        let ended = match &mut self.parts {
            Some(parts) => parts.take(&request, &chunk, &mut out)?,
            None => self.answer(&request, &chunk, &mut out)?,
        };
        self.request = Some(request);
        for response in out {
            cx.emit_at(io.response, self.next, response);
            self.next += 1;
        }
        Ok(if ended { Flow::Stop } else { Flow::Continue })
    }
}
register!(OpenAIResponse);

impl OpenAIResponse {
    /// Takes a chunk in; true when the answer is complete.
    fn answer(
        &mut self,
        request: &TextRequest,
        chunk: &TextChunk,
        out: &mut Vec<HttpResponse>,
    ) -> Result<bool> {
        let count = self.choices.len();
        let choice = self.choices.get_mut(chunk.index as usize).ok_or_else(|| {
            Error::internal(format!("text for choice {} of {count}", chunk.index))
        })?;
        if choice.finish.is_some() {
            return Ok(false);
        }
        choice.counts = chunk.usage;
        choice.finish = chunk.finish;
        if let Some(echo) = &chunk.echo {
            choice.begins = echo.text.chars().count();
        }
        let begins = choice.begins;
        if request.stream {
            let mut events = Events::new(request, || self.usage(request), out);
            if !self.begun {
                events.begin()?;
            }
            events.extend(chunk, begins)?;
            self.begun = true;
        } else {
            choice.keep(chunk)?;
        }
        if self.choices.iter().any(|choice| choice.finish.is_none()) {
            return Ok(false);
        }
        if request.stream {
            let events = Events::new(request, || self.usage(request), out);
            events.end(self.usage(request))?;
        } else {
            out.push(whole(self.body(request)?));
        }
        Ok(true)
    }

    /// A whole answer.
    fn body(&self, request: &TextRequest) -> Result<String> {
        let usage = UsageField::Counts(self.usage(request));
        let choices = self.choices.iter().zip(0..);
        match request.endpoint {
            Endpoint::Chat | Endpoint::Responses | Endpoint::Messages => {
                let choices: Vec<_> = choices
                    .map(|(choice, index)| ChatChoice {
                        index,
                        message: choice.message(request.function_call),
                        logprobs: request
                            .logprobs
                            .then(|| ChatLogprobs::new(&choice.logprobs)),
                        finish_reason: choice
                            .finish
                            .map_or("stop", |finish| finish_reason(request, finish)),
                    })
                    .collect();
                let mut answer = Answer::new(request, "chat.completion", choices);
                answer.usage = usage;
                json(&answer)
            }
            Endpoint::Completions => {
                let choices: Vec<_> = choices
                    .map(|(choice, index)| TextChoice {
                        text: &choice.text,
                        index,
                        logprobs: request.logprobs.then(|| choice.text_logprobs()),
                        finish_reason: choice.finish.map(Finish::as_str),
                    })
                    .collect();
                let mut answer = Answer::new(request, "text_completion", choices);
                answer.usage = usage;
                json(&answer)
            }
        }
    }

    /// Counts each prompt once, however often it was answered.
    fn usage(&self, request: &TextRequest) -> Usage {
        let mut usage = Usage::default();
        for (index, choice) in self.choices.iter().enumerate() {
            usage.completion_tokens += choice.counts.generated_tokens;
            if let Some(drafts) = choice.counts.drafts {
                let details = usage.completion_tokens_details.get_or_insert_default();
                details.accepted_prediction_tokens += drafts.accepted;
                details.rejected_prediction_tokens += drafts.rejected;
            }
            if index % request.n.max(1) as usize == 0 {
                usage.prompt_tokens += choice.counts.prompt_tokens;
                usage.prompt_tokens_details = PromptTokensDetails {
                    cached_tokens: usage.prompt_tokens_details.cached_tokens
                        + choice.counts.cached_tokens,
                };
            }
        }
        usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
        usage
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

    fn text_logprobs(&self) -> TextLogprobs<'_> {
        let mut logprobs = TextLogprobs::default();
        logprobs.extend(&self.echo.logprobs, 0);
        logprobs.extend(&self.logprobs, self.begins);
        logprobs
    }

    fn message(&self, function_call: bool) -> Message<'_> {
        let first = self.tool_calls.first().filter(|_| function_call);
        let function_call = first.map(|call| Function {
            name: Some(&call.start.name),
            arguments: &call.arguments,
        });
        let tool_calls = self.tool_calls.iter().map(|call| ToolCall {
            id: &call.start.id,
            r#type: "function",
            function: Function {
                name: Some(&call.start.name),
                arguments: &call.arguments,
            },
        });
        let only_calls = self.text.is_empty() && !self.tool_calls.is_empty();
        Message {
            role: "assistant",
            content: (!only_calls).then_some(self.text.as_str()),
            reasoning_content: Some(self.reasoning.as_str()).filter(|text| !text.is_empty()),
            refusal: (),
            tool_calls: match function_call {
                Some(_) => Vec::new(),
                None => tool_calls.collect(),
            },
            function_call,
        }
    }
}

/// The header that lists the fields of the request that nobody knows.
pub(super) fn ignored_fields(ignored: &[String]) -> Option<HttpResponse> {
    if ignored.is_empty() {
        return None;
    }
    let mut value = String::new();
    for name in ignored {
        if value.len() > MAX_IGNORED_BYTES {
            value.push_str(", ...");
            break;
        }
        if !value.is_empty() {
            value.push_str(", ");
        }
        let letters = name.chars().take(MAX_NAME_CHARACTERS);
        value.extend(letters.map(|letter| match letter {
            ',' => '?',
            '!'..='~' => letter,
            _ => '?',
        }));
    }
    Some(HttpResponse::Header {
        name: "x-ignored-fields",
        value,
    })
}

/// An answer in one piece.
pub(super) fn whole(json: String) -> HttpResponse {
    HttpResponse::Body {
        content_type: "application/json",
        bytes: json.into(),
    }
}

pub(super) fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::internal("the answer cannot be written as JSON").with_source(error))
}

#[cfg(test)]
mod tests;
