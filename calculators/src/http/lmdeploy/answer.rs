//! Answers of `chat/interactive`: one object with the whole text, or one for each piece of it.

use graphmill_engine::Result;
use graphmill_llm::Usage;
use serde_json::{Value, json};

use super::HISTORY_TOKENS;
use crate::http::{
    body::{to_json, whole},
    dialect::AnswerWriter,
};
use crate::payload::{Finish, HttpResponse, TextChunk, TextRequest};

/// A writer of answers in LMDeploy's form.
#[derive(Default)]
pub(super) struct Texts {
    /// Text so far, for an answer in one object.
    text: String,
}

fn written(
    request: &TextRequest,
    text: &str,
    usage: &Usage,
    finish: Option<Finish>,
) -> Result<String> {
    let before = request.echo.get(HISTORY_TOKENS).and_then(Value::as_u64);
    let before = before.unwrap_or_default();
    to_json(&json!({
        "text": text,
        "tokens": usage.generated_tokens,
        "input_tokens": u64::from(usage.prompt_tokens).saturating_sub(before),
        "history_tokens": before,
        "finish_reason": finish.map(Finish::as_str),
    }))
}

impl AnswerWriter for Texts {
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
                out.push(whole(written(request, &self.text, usage, finish)?));
            }
        } else if !chunk.text.is_empty() || finish.is_some() {
            let line = written(request, &chunk.text, usage, finish)?;
            out.push(HttpResponse::Event(line));
            out.extend(finish.map(|_| HttpResponse::End));
        }
        Ok(finish.is_some())
    }
}
