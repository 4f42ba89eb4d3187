//! The body of a POST: scanned once, the name of the graph it is for, and its deadline. What the
//! other fields may say is decided by the graph's request node.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use graphmill_calculators::payload::JsonBody;
use serde_json::Value;

use crate::{
    bodies::Share,
    errors::{Cause, Failure},
    kserve::wrong,
};

/// Longer bodies are scanned off the threads that serve requests: to scan this many bytes takes
/// less than a millisecond.
const INLINE_BYTES: usize = 256 << 10;

/// A body that is a JSON object.
pub(super) struct ParsedBody {
    pub(super) bytes: Bytes,
    pub(super) json: Arc<JsonBody>,
}

impl ParsedBody {
    /// Scans what was read.
    pub(super) async fn parse(bytes: Bytes, share: &Share) -> Result<Self, Failure> {
        let json = if bytes.len() > INLINE_BYTES {
            let bytes = bytes.clone();
            let scan = move || JsonBody::scan(bytes);
            share.beside(scan, "the body could not be parsed").await??
        } else {
            JsonBody::scan(bytes.clone())?
        };
        Ok(Self {
            bytes,
            json: Arc::new(json),
        })
    }

    /// Puts in what the path says of the graph; refuses a body that says something else.
    pub(super) fn is_for(&mut self, name: &str, version: &str) -> Result<(), Failure> {
        for (field, said) in [
            ("model", name),
            ("model_name", name),
            ("model_version", version),
        ] {
            if self.json.get(field)?.is_some_and(|value| value != said) {
                return Err(wrong(
                    field.to_owned(),
                    format_args!("the path says `{said}`"),
                ));
            }
            if let Some(json) = Arc::get_mut(&mut self.json) {
                json.insert(field, said.into());
            }
        }
        Ok(())
    }

    /// The field that holds the prompt.
    pub(super) fn prompt_field(&self) -> Option<&'static str> {
        ["messages", "prompt", "input", "text_input", "file"]
            .into_iter()
            .find(|field| self.json.has(field))
    }

    /// The time of its field `timeout`, in seconds. One that is no positive number is for the graph
    /// to refuse.
    pub(super) fn timeout(&self) -> Option<Duration> {
        let seconds = self.json.short("timeout").and_then(Value::as_f64);
        seconds
            .filter(|seconds| *seconds > 0.0)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }

    /// Returns true if the request asks for a stream of events.
    pub(super) fn is_for_stream(&self) -> bool {
        self.json.short("stream").and_then(Value::as_bool) == Some(true)
    }

    /// Whether the request leaves open which graph it is for.
    pub(super) fn names_no_model(&self) -> bool {
        !self.json.has("model")
    }

    /// The graph that the request names. Nothing else of the body has been made a value when this
    /// is asked.
    pub(super) fn model(&self) -> Result<&str, Failure> {
        let (code, message) = match self.json.get("model")? {
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
