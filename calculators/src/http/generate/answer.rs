//! Answers: one object with the whole text, or an event for each piece of it.

use graphmill_engine::Result;
use graphmill_llm::Usage;
use serde::Serialize;
use serde_json::Value;

use crate::http::{
    body::{to_json, whole},
    dialect::AnswerWriter,
};
use crate::payload::{Finish, HttpResponse, TextChunk, TextRequest};

/// The version of a graph without versions.
const VERSION: &str = "1";

/// Writes an answer.
pub(super) struct Texts {
    /// The text so far, where the answer is one object.
    text: String,
    with_details: bool,
}

impl Texts {
    pub(super) fn new(request: &TextRequest) -> Self {
        let details = request.echo.get("details");
        Self {
            text: String::new(),
            with_details: details.and_then(Value::as_bool) == Some(true),
        }
    }

    fn written(&self, request: &TextRequest, text: &str, finish: Option<Finish>) -> Result<String> {
        let echoed = |name| request.echo.get(name).and_then(Value::as_str);
        let finish = finish.filter(|_| self.with_details);
        to_json(&Written {
            id: echoed("id"),
            model_name: echoed("model_name").unwrap_or(&request.model),
            model_version: echoed("model_version").unwrap_or(VERSION),
            text_output: text,
            details: finish.map(|finish| Details {
                finish_reason: reason(finish),
            }),
        })
    }
}

#[derive(Serialize)]
struct Written<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    model_name: &'a str,
    model_version: &'a str,
    text_output: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
}

#[derive(Serialize)]
struct Details {
    finish_reason: &'static str,
}

fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::ToolCalls => "eos_token",
        Finish::StopString(_) => "stop_sequence",
        Finish::Length => "length",
    }
}

impl AnswerWriter for Texts {
    fn take(
        &mut self,
        request: &TextRequest,
        chunk: &TextChunk,
        _: &Usage,
        out: &mut Vec<HttpResponse>,
    ) -> Result<bool> {
        let finish = chunk.finish;
        if !request.stream {
            self.text.push_str(&chunk.text);
            if finish.is_some() {
                out.push(whole(self.written(request, &self.text, finish)?));
            }
        } else if !chunk.text.is_empty() || finish.is_some() {
            let event = self.written(request, &chunk.text, finish)?;
            out.push(HttpResponse::Event(event));
            if finish.is_some() {
                out.push(HttpResponse::End);
            }
        }
        Ok(finish.is_some())
    }
}
