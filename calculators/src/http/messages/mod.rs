//! Anthropic's `messages`: conversations and answers that consist of content blocks.

mod answer;
mod request;

use graphmill_dialects::Fields;
use graphmill_engine::Result;
use serde_json::{Value, json};

use super::{
    OwnParams,
    dialect::{AnswerWriter, Dialect, Failure, Family, Place, Purpose, Route, TextDialect},
    named_events::PartsWriter,
};
use crate::payload::{JsonBody, RequestInput, TextRequest};

/// The dialect of Anthropic's `messages`.
#[derive(Debug)]
pub(super) struct Messages;

impl Dialect for Messages {
    fn routes(&self) -> &'static [Route] {
        &[
            Route {
                path: "messages",
                purpose: Purpose::Answer,
                summary: "Answers a conversation, as Anthropic's Messages do",
                required: &["model", "messages"],
                answer: &["id", "type", "role", "content"],
            },
            Route {
                path: "messages/count_tokens",
                purpose: Purpose::Count(None),
                summary: "Counts the tokens of a request for a message",
                required: &["model", "messages"],
                answer: &["input_tokens"],
            },
        ]
    }

    fn place(&self) -> Place {
        Place::Behind(&["/v1", "/v3", "/v3/v1"])
    }

    fn family(&'static self) -> Family {
        Family::Text(self)
    }

    /// Writes `{"type": "error", "error": {"type", "message"}}`.
    fn error(&self, failure: &Failure<'_>) -> Value {
        let mut error = json!({ "type": kind(failure), "message": failure.message });
        for (name, value) in [("param", failure.param), ("code", failure.code)] {
            if let Some(value) = value {
                error[name] = value.into();
            }
        }
        let mut object = json!({ "type": "error", "error": error });
        if let Some(id) = failure.request {
            object["request_id"] = json!(id);
        }
        object
    }

    fn error_event(&self, failure: &Failure<'_>, _: u64) -> (Option<&'static str>, Value) {
        (Some("error"), self.error(failure))
    }

    fn error_form(&self) -> &'static str {
        "MessagesError"
    }

    fn id_header(&self) -> Option<&'static str> {
        Some("request-id")
    }

    fn client_header(&self) -> Option<&'static str> {
        Some("anthropic-version")
    }
}

impl TextDialect for Messages {
    fn id_prefix(&self) -> &'static str {
        "msg_"
    }

    fn input(&self, body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
        request::read(body, fields)
    }

    fn writer(&self, _: &TextRequest) -> Box<dyn AnswerWriter> {
        Box::new(PartsWriter::new(answer::MessageForm::default()))
    }
}

/// Returns the name of a status in this dialect.
fn kind(failure: &Failure<'_>) -> &'static str {
    match failure.status {
        404 => "not_found_error",
        401 => "authentication_error",
        403 => "permission_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 if failure.passes => "overloaded_error",
        504 | 408 => "timeout_error",
        400..500 => "invalid_request_error",
        _ => "api_error",
    }
}
