//! Answers that have one choice and consist of parts, as whole bodies or as streams of named
//! events.

use graphmill_engine::Result;
use serde_json::Value;

use super::body::to_json;
use super::dialect::{AnswerPackets, AnswerWriter};
use super::parts::{PartialAnswer, Parts, Step};
use crate::payload::{HttpResponse, TextChunk};

/// Name and data of an event in a stream.
pub(super) type Event = (&'static str, Value);

/// The form of an answer that consists of parts, in a dialect.
pub(super) trait Form: Send {
    /// Returns the events with which the stream begins.
    fn begin(&mut self, answer: PartialAnswer<'_>) -> Vec<Event>;
    /// Returns the events for a new part, which is the last one so far.
    fn part_begins(&mut self, answer: PartialAnswer<'_>, index: usize) -> Vec<Event>;
    /// Returns the events for more text of a part.
    fn part_grows(&mut self, answer: PartialAnswer<'_>, index: usize, text: &str) -> Vec<Event>;
    /// Returns the events for the end of a part.
    fn part_ends(&mut self, answer: PartialAnswer<'_>, index: usize) -> Vec<Event>;
    /// Returns the events for the end of the answer.
    fn end(&mut self, answer: PartialAnswer<'_>) -> Vec<Event>;
    /// Returns the whole answer, for a request that does not stream.
    fn whole(&self, answer: PartialAnswer<'_>) -> Value;
}

/// Writes answers that consist of parts, in the form `F`.
pub(super) struct PartsWriter<F> {
    parts: Parts,
    form: F,
    begun: bool,
}

impl<F: Form> PartsWriter<F> {
    pub(super) fn new(form: F) -> Self {
        Self {
            parts: Parts::default(),
            form,
            begun: false,
        }
    }
}

impl<F: Form> AnswerWriter for PartsWriter<F> {
    fn take(&mut self, chunk: &TextChunk, out: &mut AnswerPackets<'_>) -> Result<bool> {
        let steps = self.parts.take(chunk, &out.usage);
        let answer = self.parts.answer(out.request);
        let ended = answer.finish.is_some();
        if !out.request.stream {
            if ended {
                out.whole(&self.form.whole(answer))?;
            }
            return Ok(ended);
        }
        let mut events = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            events.extend(self.form.begin(answer));
        }
        for step in &steps {
            events.extend(match step {
                Step::Begin(index) => self.form.part_begins(answer, *index),
                Step::Grow(index, text) => self.form.part_grows(answer, *index, text),
                Step::End(index) => self.form.part_ends(answer, *index),
            });
        }
        if ended {
            events.extend(self.form.end(answer));
        }
        for (name, data) in events {
            let data = to_json(&data)?;
            out.packets.push(HttpResponse::NamedEvent { name, data });
        }
        if ended {
            out.packets.push(HttpResponse::End);
        }
        Ok(ended)
    }
}
