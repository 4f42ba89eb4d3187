//! OpenAI's `chat/completions`, in whose terms requests of most other dialects are read.

mod functions;
mod reasoning;
mod request;
mod response;
pub(super) mod tools;

use graphmill_engine::Result;

use super::{
    choices::ChoicesWriter,
    dialect::{AnswerWriter, Asked, Dialect, Route},
    fields::Fields,
    translate::Translated,
};
use crate::payload::{
    GenerationParams, JsonBody, Partner, RequestInput, SpecialTokens, TextRequest, ToolChoice,
};

pub(super) use request::{chat as conversation, check_detail, check_format};

/// The dialect.
pub(super) struct Chat;

impl Dialect for Chat {
    fn endpoint(&self) -> &'static str {
        "chat/completions"
    }

    fn routes(&self) -> &'static [Route] {
        &[
            Route {
                path: "chat/completions",
                asked: Asked::Generation,
                summary: "Answers a conversation",
                required: &["model", "messages"],
                answer: &["id", "object", "created", "model", "choices"],
            },
            Route {
                path: "chat/completions/render",
                asked: Asked::Rendering,
                summary: "Shows the prompt of a conversation",
                required: &["model", "messages"],
                answer: &["prompt", "token_ids", "count"],
            },
        ]
    }

    fn id_prefix(&self) -> &'static str {
        "chatcmpl-"
    }

    fn native(&self) -> &'static dyn Dialect {
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
