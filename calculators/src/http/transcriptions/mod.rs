//! OpenAI's `audio/transcriptions`: the file becomes a sound in a conversation, and the model's
//! answer is the transcript.

mod answer;
mod request;

use graphmill_dialects::{Fields, bodies::TRANSCRIPTIONS};
use graphmill_engine::Result;

use super::{
    OwnParams,
    dialect::{AnswerWriter, Dialect, Family, Purpose, Route, TextDialect},
};
use crate::payload::{JsonBody, RequestInput, TextRequest};

/// The dialect of OpenAI's `audio/transcriptions`.
#[derive(Debug)]
pub(super) struct Transcriptions;

impl Dialect for Transcriptions {
    fn routes(&self) -> &'static [Route] {
        &[Route {
            path: TRANSCRIPTIONS,
            purpose: Purpose::Answer,
            summary: "Writes down what is said in a sound",
            required: &["model", "file"],
            answer: &["text"],
        }]
    }

    fn file_field(&self) -> Option<&'static str> {
        Some("file")
    }

    fn family(&'static self) -> Family {
        Family::Text(self)
    }
}

impl TextDialect for Transcriptions {
    fn id_prefix(&self) -> &'static str {
        "transcr-"
    }

    fn input(&self, body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
        request::read(body, fields)
    }

    fn writer(&self, request: &TextRequest) -> Box<dyn AnswerWriter> {
        Box::new(answer::Transcript::new(request))
    }
}
