//! The bodies of requests and of answers.

use graphmill_engine::{Error, Result, Timestamp};
use serde::Serialize;

use crate::payload::{HttpRequestPayload, HttpResponse, JsonBody};

/// A header lists no more names than fit in about so many bytes, and no more of each.
const MAX_IGNORED_BYTES: usize = 512;
const MAX_NAME_CHARACTERS: usize = 64;

/// Size of a body that is read in the task of its session.
const LIGHT_BYTES: usize = 8 << 10;

/// The error of a node that writes one answer, when the packet at `time` is another request.
pub(super) fn second_request(time: Timestamp) -> Error {
    let message = format!(
        "the packet at {time} of the input REQUEST is a second request, and the node answers one"
    );
    Error::precondition(message).at_time(time)
}

/// The fields of a body.
pub(super) fn json(payload: &HttpRequestPayload) -> Result<&JsonBody> {
    payload.json.as_deref().ok_or_else(|| {
        Error::invalid("the body must be a JSON object, sent with `content-type: application/json`")
    })
}

/// Returns true if a request is read in no time. A byte takes up to 100 ns: of a body with
/// thousands of small items.
pub(super) fn is_light(payload: &HttpRequestPayload) -> bool {
    payload.body.len() <= LIGHT_BYTES
}

/// An answer in one piece, behind the header that names the request's fields that nobody knows, if
/// there are any.
pub(super) fn answer(value: &impl Serialize, ignored: &[String]) -> Result<Vec<HttpResponse>> {
    let body = whole(to_json(value)?);
    Ok(ignored_fields(ignored).into_iter().chain([body]).collect())
}

/// The header that lists the fields of the request that nobody knows.
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

/// An answer in one piece.
pub(super) fn whole(json: String) -> HttpResponse {
    HttpResponse::Body {
        content_type: "application/json",
        bytes: json.into(),
    }
}

/// A value as the text of an answer.
pub(super) fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::internal("the answer cannot be written as JSON").with_source(error))
}
