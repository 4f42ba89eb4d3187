//! `TextAnswerCalculator`: the text of an answer.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, NoOptions, Offset, OpenCx, Out, Result, Side,
    register,
};

use crate::payload::TextChunk;

/// Joins the pieces of a text to one packet, or gives each as it comes, if the side packet `STREAM`
/// is true. `FINISH_REASON`, where it is connected, says why the text ended: `stop` or `length`.
///
/// Of several choices there is only the first. The outputs have a time line of their own.
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
    /// The timestamp of the next packet.
    next: i64,
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
            next: 0,
        })
    }

    fn process(&mut self, io: TextAnswerPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        let Some(chunk) = cx.take(io.chunks) else {
            return Ok(Flow::Continue);
        };
        if chunk.index != 0 {
            return Err(Error::internal("there is more than one choice"));
        }
        self.text.push_str(&chunk.text);
        let ends = chunk.finish.is_some();
        if ends || (self.streams && !self.text.is_empty()) {
            cx.emit_at(io.text, self.next, std::mem::take(&mut self.text));
            if let Some(finish) = chunk.finish {
                cx.emit_at(io.finish, self.next, finish.as_str().to_owned());
            }
            self.next += 1;
        }
        Ok(if ends { Flow::Stop } else { Flow::Continue })
    }
}
register!(TextAnswer);
