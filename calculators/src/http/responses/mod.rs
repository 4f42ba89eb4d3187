//! OpenAI's `responses` without stored state: a conversation of items, and an answer of items.

mod answer;
mod compact;
mod lark;
mod request;
mod tools;

use graphmill_dialects::Fields;
use graphmill_engine::Result;
use serde_json::{Map, Value, json};

use super::{
    OwnParams,
    dialect::{AnswerWriter, Dialect, Failure, Family, Purpose, Route, TextDialect},
    named_events::PartsWriter,
};
use crate::payload::{GenerationParams, JsonBody, RequestInput, TextRequest};

pub(super) use compact::Compact;

/// Last event of a stream that fails.
const FAILED: &str = "response.failed";

/// The dialect of OpenAI's `responses`.
#[derive(Debug)]
pub(super) struct Responses;

impl Dialect for Responses {
    fn routes(&self) -> &'static [Route] {
        &[
            Route {
                path: "responses",
                purpose: Purpose::Answer,
                summary: "Answers a conversation, as OpenAI's Responses do",
                required: &["model", "input"],
                answer: &["id", "object", "status", "output"],
            },
            Route {
                path: "responses/input_tokens",
                purpose: Purpose::Count(Some("response.input_tokens")),
                summary: "Counts the tokens of a request for a response",
                required: &["model", "input"],
                answer: &["input_tokens"],
            },
        ]
    }

    fn family(&'static self) -> Family {
        Family::Text(self)
    }

    fn error_event(&self, failure: &Failure<'_>, number: u64) -> (Option<&'static str>, Value) {
        let id = failure.request.map(|id| format!("resp_{id}"));
        let event = json!({
            "type": FAILED,
            "sequence_number": number,
            "response": {
                "id": id,
                "object": "response",
                "status": "failed",
                "error": self.error(failure)["error"].take(),
                "incomplete_details": null,
                "output": [],
                "usage": null,
            },
        });
        (Some(FAILED), event)
    }
}

impl TextDialect for Responses {
    fn id_prefix(&self) -> &'static str {
        "resp_"
    }

    fn input(&self, body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
        let (chat, params) = request::read(body, fields)?;
        Ok((RequestInput::Chat(chat), params))
    }

    fn complete(&self, echo: &mut Map<String, Value>, params: &GenerationParams) {
        request::complete(echo, params);
    }

    fn writer(&self, _: &TextRequest) -> Box<dyn AnswerWriter> {
        Box::new(PartsWriter::new(answer::ResponseForm::default()))
    }
}
