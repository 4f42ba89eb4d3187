//! Answers: one object with the whole text, or an event for each piece of it.

use graphmill_engine::Result;
use graphmill_llm::Usage;
use serde_json::{Value, json};

use crate::http::{
    body::{to_json, whole},
    dialect::AnswerWriter,
};
use crate::payload::{Finish, HttpResponse, TextChunk, TextRequest};

/// Version in the answers of a graph without versions.
const VERSION: &str = "1";

/// A writer of answers in Triton's form.
#[derive(Default)]
pub(super) struct Texts {
    /// Text so far, for an answer in one object.
    text: String,
}

fn written(request: &TextRequest, text: &str, finish: Option<Finish>) -> Result<String> {
    let echoed = |name: &str| request.echo.get(name).filter(|value| !value.is_null());
    let mut answer = json!({});
    if let Some(id) = echoed("id") {
        answer["id"] = id.clone();
    }
    for (name, usual) in [("model_name", &*request.model), ("model_version", VERSION)] {
        answer[name] = echoed(name).map_or_else(|| usual.into(), Value::clone);
    }
    answer["text_output"] = text.into();
    if let Some(finish) = finish.filter(|_| echoed("details") == Some(&json!(true))) {
        answer["details"] = json!({ "finish_reason": reason(finish) });
    }
    to_json(&answer)
}

/// Returns the name of a finish reason.
pub(in crate::http) fn reason(finish: Finish) -> &'static str {
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
                out.push(whole(written(request, &self.text, finish)?));
            }
        } else if !chunk.text.is_empty() || finish.is_some() {
            let event = written(request, &chunk.text, finish)?;
            out.push(HttpResponse::Event(event));
            if finish.is_some() {
                out.push(HttpResponse::End);
            }
        }
        Ok(finish.is_some())
    }
}
