//! OpenAI's `chat/completions`, in whose terms requests of most other dialects are read.

mod functions;
mod reasoning;
mod request;
mod response;
pub(super) mod tools;

use graphmill_engine::Result;

use super::{
    choices::ChoicesWriter,
    dialect::{AnswerWriter, Dialect, Family, Purpose, Route, TextDialect},
    fields::Fields,
    translate::Translated,
};
use crate::payload::{
    GenerationParams, JsonBody, Partner, RequestInput, SpecialTokens, TextRequest, ToolChoice,
};

pub(super) use request::{chat as conversation, check_detail, check_format};

/// OpenAI's `chat/completions`, whose fields most translations have.
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
}

impl TextDialect for Chat {
    fn id_prefix(&self) -> &'static str {
        "chatcmpl-"
    }

    fn native(&self) -> &'static dyn TextDialect {
        &Self
    }

    /// Functions are told as tools.
    fn translate(&self, body: &JsonBody) -> Result<Option<Translated>> {
        functions::to_tools(body)
    }

    fn input(&self, body: &JsonBody, params: &mut GenerationParams) -> Result<RequestInput> {
        let body = Fields::from(body);
        params.reasoning_budget = reasoning::budget(body)?;
        if params.special_tokens == SpecialTokens::Skip {
            // The parsers behind the model take them out.
            params.special_tokens = SpecialTokens::Markers;
        }
        let mut chat = request::chat(body)?;
        chat.partner = Some(Partner {
            salt: params.cache_salt.clone(),
            adapter: params.adapter.clone(),
        });
        params.demands_call = chat.tool_choice != ToolChoice::Auto;
        Ok(RequestInput::Chat(chat))
    }

    fn writer(&self, request: &TextRequest) -> Box<dyn AnswerWriter> {
        Box::new(ChoicesWriter::<response::Messages>::new(request))
    }
}
