//! Answers of one text without more: one object with the whole text, or an event for each piece.

use graphmill_engine::Result;
use graphmill_llm::Usage;

use super::{body::whole, dialect::AnswerWriter};
use crate::payload::{Finish, HttpResponse, TextChunk, TextRequest};

/// Writes an object with a text, and with the finish reason if the answer ends with it.
type Form = fn(&TextRequest, &str, &Usage, Option<Finish>) -> Result<String>;

/// A writer of such answers in a form.
pub(super) struct TextWriter {
    form: Form,
    /// Text so far, for an answer in one object.
    text: String,
}

impl TextWriter {
    pub(super) fn boxed(form: Form) -> Box<dyn AnswerWriter> {
        let text = String::new();
        Box::new(Self { form, text })
    }
}

impl AnswerWriter for TextWriter {
    fn take(
        &mut self,
        request: &TextRequest,
        chunk: &TextChunk,
        usage: &Usage,
        out: &mut Vec<HttpResponse>,
    ) -> Result<bool> {
        let finish = chunk.finish;
        if !request.stream {
            self.text.push_str(&chunk.text);
            if finish.is_some() {
                out.push(whole((self.form)(request, &self.text, usage, finish)?));
            }
        } else if !chunk.text.is_empty() || finish.is_some() {
            let event = (self.form)(request, &chunk.text, usage, finish)?;
            out.push(HttpResponse::Event(event));
            out.extend(finish.map(|_| HttpResponse::End));
        }
        Ok(finish.is_some())
    }
}
