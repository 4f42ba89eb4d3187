//! Answers of one choice that consist of parts, as whole bodies or as streams of named events.

use graphmill_engine::Result;
use graphmill_llm::Usage;
use serde_json::Value;

use super::body::{to_json, whole};
use super::dialect::AnswerWriter;
use super::parts::{Part, PartialAnswer, Parts, Step};
use crate::payload::{HttpResponse, TextChunk, TextRequest};

/// A named event of a stream.
pub(super) type Event = (&'static str, Value);

/// Writes such an answer as a dialect has it.
pub(super) trait Form: Send {
    /// The stream begins.
    fn begin(&mut self, answer: PartialAnswer<'_>) -> Vec<Event>;
    /// A part begins; it is the last one.
    fn part_begins(&mut self, answer: PartialAnswer<'_>, index: usize, part: &Part) -> Vec<Event>;
    /// A part grows.
    fn part_grows(&mut self, answer: PartialAnswer<'_>, index: usize, text: &str) -> Vec<Event>;
    /// A part is complete.
    fn part_ends(&mut self, answer: PartialAnswer<'_>, index: usize) -> Vec<Event>;
    /// The answer is complete.
    fn end(&mut self, answer: PartialAnswer<'_>) -> Vec<Event>;
    /// The whole answer, for a request that does not stream.
    fn whole(&self, answer: PartialAnswer<'_>) -> Value;
}

/// Writes an answer in a form.
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
    fn take(
        &mut self,
        request: &TextRequest,
        chunk: &TextChunk,
        usage: &Usage,
        out: &mut Vec<HttpResponse>,
    ) -> Result<bool> {
        let steps = self.parts.take(chunk, usage);
        let answer = self.parts.answer(request);
        let ended = answer.finish.is_some();
        if !request.stream {
            if ended {
                out.push(whole(to_json(&self.form.whole(answer))?));
            }
            return Ok(ended);
        }
        let mut events = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            events.extend(self.form.begin(answer));
        }
        for step in &steps {
            events.extend(match step {
                Step::Begin(index) => self.form.part_begins(answer, *index, &answer.parts[*index]),
                Step::Grow(index, text) => self.form.part_grows(answer, *index, text),
                Step::End(index) => self.form.part_ends(answer, *index),
            });
        }
        if ended {
            events.extend(self.form.end(answer));
        }
        for (name, data) in events {
            let data = to_json(&data)?;
            out.push(HttpResponse::NamedEvent { name, data });
        }
        if ended {
            out.push(HttpResponse::End);
        }
        Ok(ended)
    }
}
