//! OpenAI's `completions`: prompts that are continued as they are.

mod request;
mod response;

use graphmill_engine::Result;

use super::{
    choices::ChoicesWriter,
    dialect::{AnswerWriter, Dialect, Route},
    inspect::question::Asked,
};
use crate::payload::{GenerationParams, JsonBody, RequestInput, TextRequest};

/// The dialect.
pub(super) struct Completions;

impl Dialect for Completions {
    fn endpoint(&self) -> &'static str {
        "completions"
    }

    fn routes(&self) -> &'static [Route] {
        &[
            Route {
                path: "completions",
                asked: Asked::Generation,
                summary: "Continues prompts",
                required: &["model", "prompt"],
                answer: &["id", "object", "created", "model", "choices"],
            },
            Route {
                path: "completions/render",
                asked: Asked::Rendering,
                summary: "Shows the prompts of a completion",
                required: &["model", "prompt"],
                answer: &["prompts"],
            },
        ]
    }

    fn id_prefix(&self) -> &'static str {
        "cmpl-"
    }

    fn native(&self) -> &'static dyn Dialect {
        &Self
    }

    fn input(&self, body: &JsonBody, _: &mut GenerationParams) -> Result<RequestInput> {
        request::prompts(body.into())
    }

    fn writer(&self, request: &TextRequest) -> Box<dyn AnswerWriter> {
        Box::new(ChoicesWriter::<response::Texts>::new(request))
    }
}
