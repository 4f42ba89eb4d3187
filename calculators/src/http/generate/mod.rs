//! Triton's `generate` and `generate_stream`: a text that is continued, as a request for a
//! completion. The path names the graph.

mod answer;
mod request;

use graphmill_engine::Result;
use serde_json::{Map, Value, json};

use super::{
    completions::Completions,
    dialect::{AnswerWriter, Asked, Dialect, Failure, Place, Route},
    table::{GENERATE, GENERATE_STREAM},
    translate::Translated,
};
use crate::payload::{JsonBody, TextRequest};

/// The dialect.
pub(super) struct Generate {
    streams: bool,
}

impl Generate {
    /// Answers in one piece.
    pub(super) const WHOLE: Self = Self { streams: false };
    /// Answers as the text is generated.
    pub(super) const STREAM: Self = Self { streams: true };
}

impl Dialect for Generate {
    fn endpoint(&self) -> &'static str {
        if self.streams {
            GENERATE_STREAM
        } else {
            GENERATE
        }
    }

    fn routes(&self) -> &'static [Route] {
        const REQUIRED: &[&str] = &["text_input"];
        const ANSWER: &[&str] = &["model_name", "model_version", "text_output"];
        if self.streams {
            &[Route {
                path: GENERATE_STREAM,
                asked: Asked::Generation,
                summary: "Continues a text, as Triton's `generate_stream` does",
                required: REQUIRED,
                answer: ANSWER,
            }]
        } else {
            &[Route {
                path: GENERATE,
                asked: Asked::Generation,
                summary: "Continues a text, as Triton's `generate` does",
                required: REQUIRED,
                answer: ANSWER,
            }]
        }
    }

    fn place(&self) -> Place {
        Place::BehindTheGraph
    }

    fn id_prefix(&self) -> &'static str {
        "gen-"
    }

    fn native(&self) -> &'static dyn Dialect {
        &Completions
    }

    fn translate(&self, body: &JsonBody) -> Result<Option<Translated>> {
        request::to_completion(body, self.streams).map(Some)
    }

    fn writer(&self, request: &TextRequest) -> Box<dyn AnswerWriter> {
        Box::new(answer::Texts::new(request))
    }

    /// `{"error": <message>}`, with the code and the field where there are any.
    fn error(&self, failure: &Failure<'_>) -> Value {
        let mut error = Map::new();
        error.insert("error".to_owned(), json!(failure.message));
        for (name, said) in [("code", failure.code), ("param", failure.param)] {
            if let Some(said) = said {
                error.insert(name.to_owned(), json!(said));
            }
        }
        Value::Object(error)
    }
}
