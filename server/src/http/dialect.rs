//! How a failure is told in the middle of a stream, by the path that the request came to.

use bytes::BytesMut;
use serde_json::json;

use super::{anthropic, openai, sse};
use crate::rescue::Failure;

/// The form of a stream's events.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// OpenAI's chat and completions, and what nodes of others make: events without names.
    Chunks,
    /// OpenAI's responses: named events with numbers.
    Responses,
    /// Anthropic's messages: named events.
    Messages,
}

impl Dialect {
    pub(crate) fn of(path: &str) -> Self {
        if path.ends_with("/responses") {
            Self::Responses
        } else if path.ends_with("/messages") {
            Self::Messages
        } else {
            Self::Chunks
        }
    }

    /// Appends the event that says why there will be no more; `number` counts the named events before it.
    pub(crate) fn write_failure(self, out: &mut BytesMut, failure: &Failure, number: u64) {
        match self {
            Self::Chunks => sse::write_event(out, &openai::error_object(failure).to_string()),
            Self::Responses => {
                let mut event = json!({
                    "type": "error",
                    "sequence_number": number,
                    "code": failure.code(),
                    "message": failure.message,
                    "param": failure.param,
                });
                // Clients of this dialect look for either form.
                event["error"] = openai::error_object(failure)["error"].take();
                sse::write_named_event(out, "error", &event.to_string());
            }
            Self::Messages => {
                let error = anthropic::error_object(failure, None);
                sse::write_named_event(out, "error", &error.to_string());
            }
        }
    }
}
