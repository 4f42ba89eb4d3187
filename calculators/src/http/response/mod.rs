//! `OpenAIResponseCalculator`: writes answers of text, whole or as streams, in all dialects.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, NoOptions, Offset, OpenCx, Out, Policy, Result,
    RunCx, Timestamp, register,
};
use graphmill_llm::Usage;

use super::{
    body::{ignored_fields, second_request, to_json, whole},
    dialect::{AnswerPackets, AnswerWriter},
};
use crate::payload::{HttpResponse, PromptReport, Tally, TallyCounts, TextChunk, TextRequest};

/// Writes the answer to a request from its text: one body when all choices have ended, or an event
/// for each chunk.
///
/// A stream begins at the first chunk of text. Its first events have the roles of the choices, in
/// order. Each choice ends with a chunk that has its finish reason. Token counts follow if the
/// request asks for them. The output has a time line of its own, with a timestamp for each event.
///
/// The header `x-ignored-fields` lists unknown fields of the request, and parts of it without
/// effect. `x-max-tokens` is the limit to which `max_tokens` was lowered. If `REPORT` is connected,
/// a report is the whole answer. `usage` counts the tokens of all models and prompts of the
/// session. There is only one answer: a second request is an error.
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
    /// The request, and the writer of the answer in its dialect.
    request: Option<(TextRequest, Box<dyn AnswerWriter>)>,
    usage: AnswerUsage,
    /// Timestamp of the next event.
    next: i64,
    /// True once the answer is complete.
    ended: bool,
}

/// The port handles of [`OpenAIResponse`].
#[derive(Copy, Clone, Debug)]
pub struct OpenAIResponsePorts {
    request: In<TextRequest>,
    text: In<TextChunk>,
    report: In<PromptReport>,
    response: Out<HttpResponse>,
}

impl Calculator for OpenAIResponse {
    const NAME: &'static str = "OpenAIResponseCalculator";
    const DOC: &'static str =
        "Writes an answer of text, whole or streamed, in the form of the API of its request.";
    type Options = NoOptions;
    type Ports = OpenAIResponsePorts;

    fn contract(c: &mut Contract, _: &NoOptions) -> OpenAIResponsePorts {
        c.offset(Offset::Unset);
        c.policy(Policy::Immediate);
        OpenAIResponsePorts {
            request: c.input("REQUEST"),
            text: c.input("TEXT"),
            report: c.optional("REPORT"),
            response: c.output("HTTP_RESPONSE_PAYLOAD"),
        }
    }

    fn open(_: &NoOptions, io: OpenAIResponsePorts, cx: &mut OpenCx<'_>) -> Result<Self> {
        // Text waits for the request that it answers.
        cx.out().pause(io.text);
        Ok(Self::default())
    }

    fn process(&mut self, io: OpenAIResponsePorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(request) = cx.take(io.request) {
            if self.request.is_some() {
                return Err(second_request(cx.settled(io.request)));
            }
            cx.out().resume(io.text);
            let mut writer = request.dialect.writer(&request);
            writer.begin(cx.run());
            self.request = Some((request, writer));
        }
        if let Some(PromptReport(report)) = cx.take(io.report) {
            cx.emit_at(io.response, self.next, whole(to_json(&report)?));
            return Ok(self.end(io, cx));
        }
        let Some(chunk) = cx.take(io.text).filter(|_| !self.ended) else {
            return Ok(Flow::Continue);
        };
        let Some((request, writer)) = &mut self.request else {
            return Err(Error::internal("text came before the request it answers"));
        };
        let mut out = AnswerPackets {
            request,
            usage: self.usage.with(cx.run(), request, &chunk),
            packets: Vec::new(),
        };
        if self.next == 0 {
            out.packets.extend(ignored_fields(&request.ignored));
            let lowered = Tally::find(cx.run()).and_then(|tally| tally.read().lowered);
            out.packets.extend(lowered.map(|most| HttpResponse::Header {
                name: "x-max-tokens",
                value: most.to_string(),
            }));
        }
        let ended = writer.take(&chunk, &mut out)?;
        for response in out.packets {
            cx.emit_at(io.response, self.next, response);
            self.next += 1;
        }
        Ok(if ended {
            self.end(io, cx)
        } else {
            Flow::Continue
        })
    }
}
register!(OpenAIResponse);

impl OpenAIResponse {
    /// Ends the answer. The node continues while another request can come, to refuse it.
    fn end(&mut self, io: OpenAIResponsePorts, cx: &mut Cx<'_>) -> Flow {
        self.ended = true;
        if cx.settled(io.request) >= Timestamp::MAX {
            return Flow::Stop;
        }
        cx.out().close(io.response);
        Flow::Continue
    }
}

/// Tokens that the choices of an answer have read and generated.
#[derive(Default)]
struct AnswerUsage {
    choices: Vec<Usage>,
}

impl AnswerUsage {
    /// Returns the counts of the answer after one more chunk. They are those of all models and
    /// prompts of the session, if its host counts them, or else those of its choices.
    fn with(&mut self, run: &RunCx, request: &TextRequest, chunk: &TextChunk) -> Usage {
        if let Some(tally) = Tally::find(run) {
            return tally.read().usage();
        }
        let choice = chunk.index as usize;
        if self.choices.len() <= choice {
            self.choices.resize(choice + 1, Usage::default());
        }
        self.choices[choice] = chunk.usage;
        let mut sum = TallyCounts::default();
        for (index, choice) in self.choices.iter().enumerate() {
            sum.generated += choice.generated_tokens;
            sum.draft(choice.drafts);
            // Each prompt counts once, even if it has several answers.
            if index % request.n.max(1) as usize == 0 {
                sum.prompt += choice.prompt_tokens;
                sum.cached += choice.cached_tokens;
                sum.sounds += choice.sound_tokens;
            }
        }
        sum.usage()
    }
}

#[cfg(test)]
mod tests;
