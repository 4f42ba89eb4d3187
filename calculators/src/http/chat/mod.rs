//! OpenAI's `chat/completions`, whose fields most other dialects have in addition to their own.

mod request;
mod response;
mod tools;

use graphmill_dialects::Fields;
use graphmill_engine::Result;
use graphmill_llm::{AdapterSpec, NamedAdapter};

use super::{
    OwnParams,
    choices::ChoicesWriter,
    dialect::{AnswerWriter, Dialect, Family, Purpose, Route, TextDialect},
    llama_server,
};
use crate::payload::{JsonBody, RequestInput, TextRequest};

pub(super) use request::{conversation, read, turns};
pub(super) use tools::{Names, function_of};

/// The dialect of OpenAI's `chat/completions`.
#[derive(Debug)]
pub struct Chat;

impl Dialect for Chat {
    fn routes(&self) -> &'static [Route] {
        &[
            Route {
                path: "chat/completions",
                purpose: Purpose::Answer,
                summary: "Answers a conversation",
                required: &["model", "messages"],
                answer: &["id", "object", "created", "model", "choices"],
            },
            Route {
                path: "chat/completions/render",
                purpose: Purpose::Rendering,
                summary: "Shows the prompt of a conversation",
                required: &["model", "messages"],
                answer: &["prompt", "token_ids", "count"],
            },
            Route {
                path: "apply-template",
                purpose: Purpose::Template,
                summary: "Shows the prompt of a conversation",
                required: &["messages"],
                answer: &["prompt", "token_ids", "count"],
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

impl TextDialect for Chat {
    fn id_prefix(&self) -> &'static str {
        "chatcmpl-"
    }

    fn input(&self, body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
        let (chat, own) = read(fields, &body.allowance())?;
        Ok((RequestInput::Chat(chat), own))
    }

    fn tells_tokens(&self) -> bool {
        true
    }

    fn writer(&self, request: &TextRequest) -> Box<dyn AnswerWriter> {
        Box::new(ChoicesWriter::<response::ChatForm>::new(request))
    }
}
