//! OpenAI's `completions`: prompts that are continued as they are.

mod response;

use graphmill_engine::Result;

use super::{
    choices::ChoicesWriter,
    dialect::{AnswerWriter, Dialect, Family, Purpose, Route, TextDialect},
    fields::{Fields, invalid},
    limits::MAX_PROMPTS,
    prompts,
};
use crate::payload::{GenerationParams, JsonBody, Prompt, RequestInput, TextRequest};

/// OpenAI's `completions`, whose fields translations of prompts have.
#[derive(Debug)]
pub struct Completions;

impl Dialect for Completions {
    fn routes(&self) -> &'static [Route] {
        &[
            Route {
                path: "completions",
                purpose: Purpose::Answer,
                summary: "Continues prompts",
                required: &["model", "prompt"],
                answer: &["id", "object", "created", "model", "choices"],
            },
            Route {
                path: "completions/render",
                purpose: Purpose::Rendering,
                summary: "Shows the prompts of a completion",
                required: &["model", "prompt"],
                answer: &["prompts"],
            },
        ]
    }

    fn family(&'static self) -> Family {
        Family::Text(self)
    }
}

impl TextDialect for Completions {
    fn id_prefix(&self) -> &'static str {
        "cmpl-"
    }

    fn native(&self) -> &'static dyn TextDialect {
        &Self
    }

    fn input(&self, body: &JsonBody, _: &mut GenerationParams) -> Result<RequestInput> {
        prompts(body.into())
    }

    fn writer(&self, request: &TextRequest) -> Box<dyn AnswerWriter> {
        Box::new(ChoicesWriter::<response::Texts>::new(request))
    }
}

/// Reads the prompts of a completion: a string, strings, token ids, or lists of token ids.
fn prompts(body: Fields<'_>) -> Result<RequestInput> {
    let mut prompts = prompts::read(
        body,
        prompts::Form {
            field: "prompt",
            most: MAX_PROMPTS,
            empty_text: false,
            only_tokens: false,
        },
    )?;
    if let Some(suffix) = body.str("suffix")?.filter(|suffix| !suffix.is_empty()) {
        if body.bool("echo")? == Some(true) {
            return Err(invalid("suffix", "cannot be used together with `echo`"));
        }
        for prompt in &mut prompts {
            let Prompt::Text(before) = prompt else {
                return Err(invalid("suffix", "needs a `prompt` that is text"));
            };
            *prompt = Prompt::Gap {
                before: std::mem::take(before),
                after: suffix.to_owned(),
            };
        }
    }
    Ok(RequestInput::Prompts(prompts.into()))
}
