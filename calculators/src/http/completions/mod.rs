//! OpenAI's `completions`: prompts that are continued.

mod response;

use graphmill_dialects::{Fields, bodies::completions as bodies};
use graphmill_engine::Result;
use graphmill_llm::{AdapterSpec, NamedAdapter};

use super::{
    OwnParams,
    choices::ChoicesWriter,
    dialect::{AnswerWriter, Dialect, Family, Purpose, Route, TextDialect},
    fields::{conflicting, invalid},
    limits::MAX_PROMPTS,
    llama_server, prompts, vectors,
};
use crate::payload::{JsonBody, Prompt, RequestInput, TextRequest};

/// The dialect of OpenAI's `completions`.
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

    fn adapters(&self, body: &JsonBody, adapters: &[AdapterSpec]) -> Result<Vec<NamedAdapter>> {
        llama_server::adapters::read(body, adapters)
    }
}

impl TextDialect for Completions {
    fn id_prefix(&self) -> &'static str {
        "cmpl-"
    }

    fn continues_prompts(&self) -> bool {
        true
    }

    fn input(&self, body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
        let own: bodies::Completions = fields.take()?;
        let prompts = match vectors::read(body)? {
            Some(vectors) if own.echo => return Err(conflicting("echo", vectors.field())),
            Some(vectors) => vec![Prompt::Vectors(vectors)],
            None => prompts::read(body, "prompt", MAX_PROMPTS, 1)?,
        };
        let input = input(prompts, &own)?;
        let own = OwnParams {
            max_tokens: own.max_tokens,
            echo: own.echo,
            logprobs: own.logprobs,
            ..OwnParams::default()
        };
        Ok((input, own))
    }

    fn tells_tokens(&self) -> bool {
        true
    }

    fn writer(&self, request: &TextRequest) -> Box<dyn AnswerWriter> {
        Box::new(ChoicesWriter::<response::CompletionForm>::new(request))
    }
}

/// Returns the input of prompts, each with the text after the gap if there is one.
pub(super) fn input(mut prompts: Vec<Prompt>, own: &bodies::Completions) -> Result<RequestInput> {
    if !own.suffix.is_empty() {
        if own.echo {
            return Err(conflicting("suffix", "echo"));
        }
        for prompt in &mut prompts {
            let Prompt::Text(before) = prompt else {
                return Err(invalid("suffix", "needs a `prompt` that is text"));
            };
            *prompt = Prompt::Gap {
                before: std::mem::take(before),
                after: own.suffix.clone(),
                field: "suffix",
                context: Vec::new(),
            };
        }
    }
    Ok(RequestInput::Prompts(prompts.into()))
}
