//! `TextAnswerCalculator`: extracts the text of an answer.

use std::collections::VecDeque;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, NoOptions, Offset, OpenCx, Out, Payload, Policy,
    Result, Side, Timestamp, register,
};

use crate::payload::TextChunk;

/// Joins the chunks of a text to one packet, or emits each as it comes if the side packet `STREAM`
/// is true. `FINISH_REASON`, if connected, is the reason why the text ended: `stop` or `length`.
///
/// The text of a prompt has the prompt's timestamp. With `STREAM`, timestamps of chunks count up
/// from there, or from the end of the previous text if that is later. A prompt can have only one
/// choice.
///
/// Without `PROMPT`, the time line of `TEXT` does not settle timestamps of prompts that never come.
/// Connect `PROMPT` to the stream on the language model's input `TOKENS` to settle them: a
/// timestamp without a prompt then has no answer as soon as that is known. So a loop ends even if
/// its last item was dropped.
///
/// ```pbtxt
/// input_stream: "TEXT:chunks"
/// input_stream: "PROMPT:prompt_tokens"
/// output_stream: "TEXT:text"
/// node {
///   calculator: "TextAnswerCalculator"
///   input_stream: "TEXT:chunks"
///   input_stream: "PROMPT:prompt_tokens"
///   output_stream: "TEXT:text"
/// }
/// ```
pub struct TextAnswer {
    streams: bool,
    text: String,
    /// First timestamp after all texts so far.
    next: Timestamp,
    /// Timestamps of prompts that have no complete answer yet.
    awaited: VecDeque<Timestamp>,
    /// Timestamp of the last prompt with a complete answer.
    answered: Timestamp,
}

/// The port handles of [`TextAnswer`].
#[derive(Copy, Clone, Debug)]
pub struct TextAnswerPorts {
    chunks: In<TextChunk>,
    prompt: In<dyn Payload>,
    text: Out<String>,
    finish: Out<String>,
    streams: Side<bool>,
}

impl Calculator for TextAnswer {
    const NAME: &'static str = "TextAnswerCalculator";
    const DOC: &'static str = "Joins the chunks of a text, or emits each as it comes.";
    type Options = NoOptions;
    type Ports = TextAnswerPorts;

    fn contract(c: &mut Contract, _: &NoOptions) -> TextAnswerPorts {
        c.offset(Offset::Unset);
        let chunks = c.input("TEXT");
        let prompt: In<dyn Payload> = c.optional("PROMPT");
        if prompt.is_connected() {
            c.policy(Policy::Immediate);
            c.process_timestamp_bounds();
        }
        TextAnswerPorts {
            chunks,
            prompt,
            text: c.output("TEXT"),
            finish: c.optional_output("FINISH_REASON"),
            streams: c.optional_side("STREAM"),
        }
    }

    fn open(_: &NoOptions, io: TextAnswerPorts, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            streams: cx.side(io.streams).copied().unwrap_or(false),
            text: String::new(),
            next: Timestamp::MIN,
            awaited: VecDeque::new(),
            answered: Timestamp::UNSET,
        })
    }

    fn process(&mut self, io: TextAnswerPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(chunk) = cx.take(io.chunks) {
            self.take(io, cx, &chunk)?;
        }
        let known = cx.settled(io.prompt);
        if cx.packet(io.prompt).is_some() {
            self.awaited.push_back(known);
        }
        self.awaited.retain(|prompt| *prompt > self.answered);
        if io.prompt.is_connected() && known < Timestamp::MAX {
            let next = self.awaited.front().copied().unwrap_or(known.next());
            cx.out().bound_at_least(io.text, next);
            cx.out().bound_at_least(io.finish, next);
        }
        Ok(Flow::Continue)
    }
}
register!(TextAnswer);

impl TextAnswer {
    /// Adds a chunk, and emits the text that is complete with it.
    fn take(&mut self, io: TextAnswerPorts, cx: &mut Cx<'_>, chunk: &TextChunk) -> Result<()> {
        if chunk.index != 0 {
            let message = format!(
                "the prompt at {} of the input TEXT has more than one choice, but an answer is a single text",
                chunk.prompt
            );
            return Err(Error::invalid(message).with_field("n"));
        }
        self.text.push_str(&chunk.text);
        if chunk.finish.is_some() || (self.streams && !self.text.is_empty()) {
            let time = self.next.max(chunk.prompt);
            cx.emit_at(io.text, time, std::mem::take(&mut self.text));
            if let Some(finish) = chunk.finish {
                cx.emit_at(io.finish, time, finish.as_str().to_owned());
                self.answered = chunk.prompt;
            }
            self.next = time.next();
        }
        Ok(())
    }
}
