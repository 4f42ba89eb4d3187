//! `TextAnswerCalculator`: the text of an answer.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, NoOptions, Offset, OpenCx, Out, Result, Side,
    Timestamp, register,
};

use crate::payload::TextChunk;

/// Joins the pieces of a text to one packet, or gives each as it comes, if the side packet `STREAM`
/// is true. `FINISH_REASON`, where it is connected, says why the text ended: `stop` or `length`.
///
/// The text of a prompt is at the timestamp of the prompt; where it comes in pieces, they follow one
/// after the other from there, or from where those of the prompt before end. A prompt has one choice.
///
/// ```pbtxt
/// input_stream: "TEXT:chunks"
/// output_stream: "TEXT:text"
/// node {
///   calculator: "TextAnswerCalculator"
///   input_stream: "TEXT:chunks"
///   output_stream: "TEXT:text"
/// }
/// ```
pub struct TextAnswer {
    streams: bool,
    text: String,
    /// The first timestamp that is free.
    next: Timestamp,
}

/// The ports of [`TextAnswer`].
#[derive(Copy, Clone, Debug)]
pub struct TextAnswerPorts {
    chunks: In<TextChunk>,
    text: Out<String>,
    finish: Out<String>,
    streams: Side<bool>,
}

impl Calculator for TextAnswer {
    const NAME: &'static str = "TextAnswerCalculator";
    const DOC: &'static str = "Joins the pieces of a text, or gives each as it comes.";
    type Options = NoOptions;
    type Ports = TextAnswerPorts;

    fn contract(c: &mut Contract, _: &NoOptions) -> TextAnswerPorts {
        c.offset(Offset::Unset);
        TextAnswerPorts {
            chunks: c.input("TEXT"),
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
        })
    }

    fn process(&mut self, io: TextAnswerPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        let Some(chunk) = cx.take(io.chunks) else {
            return Ok(Flow::Continue);
        };
        if chunk.index != 0 {
            let message = format!(
                "the prompt at {} of the input TEXT has more than one choice, and an answer is one text",
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
            }
            self.next = time.next();
        }
        Ok(Flow::Continue)
    }
}
register!(TextAnswer);
