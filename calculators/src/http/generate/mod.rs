//! Triton's `generate` and `generate_stream`, which continue a text. The path names the graph.

mod request;

use graphmill_dialects::{
    Fields,
    bodies::{GENERATE, GENERATE_STREAM},
};
use graphmill_engine::Result;
use graphmill_llm::Usage;
use serde_json::{Value, json};

use super::{
    OwnParams,
    dialect::{AnswerWriter, Dialect, Failure, Family, Place, Purpose, Route, TextDialect},
    text_writer::TextWriter,
};
use crate::payload::{Finish, JsonBody, RequestInput, TextRequest};

pub(super) use request::insert;

/// Version in the answers of a graph without versions.
const VERSION: &str = "1";

/// A dialect of Triton's, for one path.
#[derive(Debug)]
pub(super) struct TritonDialect {
    streams: bool,
    routes: &'static [Route],
}

impl TritonDialect {
    /// The dialect of `generate`, whose answers are one object.
    pub(super) const WHOLE: Self = Self {
        streams: false,
        routes: &[route(
            GENERATE,
            "Continues a text, as Triton's `generate` does",
        )],
    };
    /// The dialect of `generate_stream`, whose answers are streams.
    pub(super) const STREAM: Self = Self {
        streams: true,
        routes: &[route(
            GENERATE_STREAM,
            "Continues a text, as Triton's `generate_stream` does",
        )],
    };
}

const fn route(path: &'static str, summary: &'static str) -> Route {
    Route {
        path,
        purpose: Purpose::Answer,
        summary,
        required: &["text_input"],
        answer: &["model_name", "model_version", "text_output"],
    }
}

impl Dialect for TritonDialect {
    fn routes(&self) -> &'static [Route] {
        self.routes
    }

    fn place(&self) -> Place {
        Place::BehindTheGraph
    }

    fn family(&'static self) -> Family {
        Family::Text(self)
    }

    fn error(&self, failure: &Failure<'_>) -> Value {
        error(failure)
    }
}

/// Writes `{"error": <message>}`, with the code and the field if there are any.
pub(super) fn error(failure: &Failure<'_>) -> Value {
    let mut error = json!({ "error": failure.message });
    for (name, value) in [("code", failure.code), ("param", failure.param)] {
        if let Some(value) = value {
            error[name] = value.into();
        }
    }
    error
}

impl TextDialect for TritonDialect {
    fn id_prefix(&self) -> &'static str {
        "gen-"
    }

    fn continues_prompts(&self) -> bool {
        true
    }

    fn input(&self, body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
        request::read(body, fields, self.streams)
    }

    fn writer(&self, _: &TextRequest) -> Box<dyn AnswerWriter> {
        TextWriter::boxed(written)
    }
}

/// Writes the object of a text, or of a piece of it.
fn written(request: &TextRequest, text: &str, _: &Usage, finish: Option<Finish>) -> Value {
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
    answer
}

/// Returns the name of a finish reason.
pub(super) fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::ToolCalls => "eos_token",
        Finish::StopString(_) => "stop_sequence",
        Finish::Length => "length",
    }
}
