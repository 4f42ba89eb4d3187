//! Answers of one text without more: one object with the whole text, or an event for each piece.

use graphmill_engine::Result;
use graphmill_llm::Usage;
use serde_json::Value;

use super::dialect::{AnswerPackets, AnswerWriter};
use crate::payload::{Finish, TextChunk, TextRequest};

/// Writes an object with a text, and with the finish reason if the answer ends with it.
type TextForm = fn(&TextRequest, &str, &Usage, Option<Finish>) -> Value;

/// A writer of such answers in a form.
pub(super) struct TextWriter {
    form: TextForm,
    /// Text so far, for an answer in one object.
    text: String,
}

impl TextWriter {
    pub(super) fn boxed(form: TextForm) -> Box<dyn AnswerWriter> {
        let text = String::new();
        Box::new(Self { form, text })
    }
}

impl AnswerWriter for TextWriter {
    fn take(&mut self, chunk: &TextChunk, out: &mut AnswerPackets<'_>) -> Result<bool> {
        let (request, finish) = (out.request, chunk.finish);
        let text = if request.stream {
            &chunk.text
        } else {
            self.text.push_str(&chunk.text);
            &self.text
        };
        if finish.is_none() && (text.is_empty() || !request.stream) {
            return Ok(false);
        }
        let object = (self.form)(request, text, &out.usage, finish);
        if finish.is_none() {
            out.event(&object)?;
            return Ok(false);
        }
        out.last(&object)?;
        Ok(true)
    }
}
