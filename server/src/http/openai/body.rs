//! The body of a POST: read with a limit, parsed once, and the name of the graph it is for. What the other fields may say is
//! decided by the graph's request node.

use std::sync::Arc;

use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use bytes::Bytes;
use serde_json::Value;

use super::BODY_LIMIT_BYTES;
use crate::rescue::{Cause, Failure};

/// Longer bodies are parsed off the threads that serve requests: parsing this many bytes takes about a millisecond.
const INLINE_BYTES: usize = 256 << 10;

/// A body that is a JSON object.
pub(super) struct ParsedBody {
    pub(super) bytes: Bytes,
    pub(super) json: Arc<Value>,
}

impl ParsedBody {
    /// Parses what was read.
    pub(super) async fn parse(read: Result<Bytes, BytesRejection>) -> Result<Self, Failure> {
        let bytes = read.map_err(unread)?;
        let json = if bytes.len() > INLINE_BYTES {
            let bytes = bytes.clone();
            let parsing = tokio::task::spawn_blocking(move || parse(&bytes));
            parsing
                .await
                .map_err(|_| Failure::new(Cause::Panic, "the body could not be parsed"))??
        } else {
            parse(&bytes)?
        };
        Ok(Self {
            bytes,
            json: Arc::new(json),
        })
    }

    /// The field that holds the prompt.
    pub(super) fn prompt_field(&self) -> Option<&'static str> {
        ["messages", "prompt", "input"]
            .into_iter()
            .find(|field| self.json.get(field).is_some())
    }

    /// Whether the request leaves open which graph it is for.
    pub(super) fn names_no_model(&self) -> bool {
        self.json.get("model").is_none_or(Value::is_null)
    }

    /// The graph that the request names.
    pub(super) fn model(&self) -> Result<&str, Failure> {
        let (code, message) = match self.json.get("model") {
            Some(Value::String(name)) if !name.is_empty() => return Ok(name),
            Some(Value::String(_)) => (
                "invalid_value",
                "`model` is empty: it names the graph that answers",
            ),
            None | Some(Value::Null) => (
                "missing_required_parameter",
                "`model` is missing: it names the graph that answers",
            ),
            Some(_) => ("invalid_type", "`model` is not a string"),
        };
        let failure = Failure::new(Cause::BadRequest, message).of_field("model");
        Err(failure.with_code(code))
    }
}

fn parse(bytes: &[u8]) -> Result<Value, Failure> {
    let refused =
        |message: String| Failure::new(Cause::BadRequest, message).with_code("invalid_json");
    match serde_json::from_slice(bytes) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(refused("the body is not a JSON object".to_owned())),
        Err(_) if bytes.is_empty() => Err(refused(
            "the body is empty; it has to be a JSON object".to_owned(),
        )),
        Err(error) => Err(refused(format!("the body is not JSON: {error}"))),
    }
}

fn unread(rejection: BytesRejection) -> Failure {
    match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => {
            let megabytes = BODY_LIMIT_BYTES >> 20;
            Failure::new(
                Cause::BodyTooLarge,
                format!("the body is longer than {megabytes} MiB"),
            )
        }
        other => Failure::new(
            Cause::BadRequest,
            format!("the body could not be read: {other}"),
        ),
    }
}
