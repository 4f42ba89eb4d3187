//! What the dialects have in common whose answers are made of parts and whose events have names.

use graphmill_engine::Result;
use serde_json::Value;

use super::parts::{Part, PartialAnswer, Parts, Step};
use super::response::{json, whole};
use super::{messages, responses};
use crate::payload::{Endpoint, HttpResponse, TextChunk, TextRequest};

/// A named event of a stream.
pub(super) type Event = (&'static str, Value);

/// How a dialect writes an answer of one choice.
pub(super) trait Dialect: Send {
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

/// The answer to a request of such a dialect, while it comes.
pub(super) struct PartsWriter {
    parts: Parts,
    dialect: Box<dyn Dialect>,
    begun: bool,
}

impl PartsWriter {
    /// A writer for the requests of an endpoint, if it has such a dialect.
    pub(super) fn of(endpoint: Endpoint) -> Option<Self> {
        let dialect: Box<dyn Dialect> = match endpoint {
            Endpoint::Responses => Box::new(responses::Answer::default()),
            Endpoint::Messages => Box::new(messages::Answer),
            Endpoint::Chat | Endpoint::Completions => return None,
        };
        Some(Self {
            parts: Parts::default(),
            dialect,
            begun: false,
        })
    }

    /// Takes a chunk in; true when the answer is complete.
    pub(super) fn take(
        &mut self,
        request: &TextRequest,
        chunk: &TextChunk,
        out: &mut Vec<HttpResponse>,
    ) -> Result<bool> {
        let steps = self.parts.take(chunk);
        let answer = self.parts.answer(request);
        let ended = answer.finish.is_some();
        if !request.stream {
            if ended {
                out.push(whole(json(&self.dialect.whole(answer))?));
            }
            return Ok(ended);
        }
        let mut events = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            events.extend(self.dialect.begin(answer));
        }
        for step in &steps {
            events.extend(match step {
                Step::Begin(index) => {
                    self.dialect
                        .part_begins(answer, *index, &answer.parts[*index])
                }
                Step::Grow(index, text) => self.dialect.part_grows(answer, *index, text),
                Step::End(index) => self.dialect.part_ends(answer, *index),
            });
        }
        if ended {
            events.extend(self.dialect.end(answer));
        }
        for (name, data) in events {
            let data = json(&data)?;
            out.push(HttpResponse::NamedEvent { name, data });
        }
        if ended {
            out.push(HttpResponse::End);
        }
        Ok(ended)
    }
}
