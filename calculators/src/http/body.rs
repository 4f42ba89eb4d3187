//! Bodies of requests and answers.

use graphmill_engine::{Error, Result, Timestamp};
use serde::Serialize;

use crate::payload::{HttpRequestPayload, HttpResponse, JsonBody, dialect::AnswerPackets};

/// Maximum size of the list of names in a header, in bytes. Further names are left out.
const MAX_IGNORED_BYTES: usize = 512;
const MAX_NAME_CHARACTERS: usize = 64;

/// Maximum size of a body that is read in the task of its session, in bytes.
const LIGHT_BYTES: usize = 8 << 10;

/// Returns the error of a node that writes one answer, for a second request at `time`.
pub(super) fn second_request(time: Timestamp) -> Error {
    let message = format!(
        "the packet at {time} of the input REQUEST is a second request, but the node answers only one"
    );
    Error::precondition(message).at_time(time)
}

/// Returns the fields of a body.
pub(super) fn json(payload: &HttpRequestPayload) -> Result<&JsonBody> {
    payload.json.as_deref().ok_or_else(|| {
        Error::invalid("the body must be a JSON object, sent with `content-type: application/json`")
    })
}

/// Returns true if a request can be read without delay. A byte takes up to 100 ns, in bodies with
/// thousands of small items.
pub(super) fn is_light(payload: &HttpRequestPayload) -> bool {
    payload.body.len() <= LIGHT_BYTES
}

/// Returns an answer in one piece, after a header with the request's unknown fields, if there are
/// any.
pub(super) fn answer(json: String, ignored: &[String]) -> Vec<HttpResponse> {
    let body = whole(json);
    ignored_fields(ignored).into_iter().chain([body]).collect()
}

/// Returns the header that lists the request's unknown fields.
pub(super) fn ignored_fields(ignored: &[String]) -> Option<HttpResponse> {
    if ignored.is_empty() {
        return None;
    }
    let mut value = String::new();
    for name in ignored {
        if value.len() > MAX_IGNORED_BYTES {
            value.push_str(", ...");
            break;
        }
        if !value.is_empty() {
            value.push_str(", ");
        }
        let letters = name.chars().take(MAX_NAME_CHARACTERS);
        value.extend(letters.map(|letter| match letter {
            ',' => '?',
            '!'..='~' => letter,
            _ => '?',
        }));
    }
    Some(HttpResponse::Header {
        name: "x-ignored-fields",
        value,
    })
}

/// Returns an answer in one piece.
pub(super) fn whole(json: String) -> HttpResponse {
    HttpResponse::Body {
        content_type: "application/json",
        bytes: json.into(),
    }
}

impl AnswerPackets<'_> {
    /// Adds an event of a stream.
    pub(super) fn event(&mut self, data: &impl Serialize) -> Result<()> {
        self.packets.push(HttpResponse::Event(to_json(data)?));
        Ok(())
    }

    /// Adds an answer in one piece.
    pub(super) fn whole(&mut self, answer: &impl Serialize) -> Result<()> {
        self.packets.push(whole(to_json(answer)?));
        Ok(())
    }

    /// Adds the last event and the end of a stream, or else an answer in one piece.
    pub(super) fn last(&mut self, answer: &impl Serialize) -> Result<()> {
        if !self.request.stream {
            return self.whole(answer);
        }
        self.event(answer)?;
        self.packets.push(HttpResponse::End);
        Ok(())
    }
}

/// Writes a value as the text of an answer.
pub(super) fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::internal("the answer cannot be written as JSON").with_source(error))
}
