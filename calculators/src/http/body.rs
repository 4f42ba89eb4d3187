//! The bodies of requests and of answers.

use std::sync::Arc;

use graphmill_engine::{Error, Result};
use serde::Serialize;

use super::fields::{Fields, invalid, missing, shown};
use super::table;
use crate::payload::{HttpRequestPayload, HttpResponse, JsonBody};

/// A header lists no more names than fit in about so many bytes, and no more of each.
const MAX_IGNORED_BYTES: usize = 512;
const MAX_NAME_CHARACTERS: usize = 64;

/// The fields of a request to `endpoint`, which is the end of the path, and the names of those that nobody knows.
pub(super) fn of<'a>(
    payload: &'a HttpRequestPayload,
    endpoint: &str,
) -> Result<(Fields<'a>, Arc<[String]>)> {
    let path = payload.uri.split('?').next().unwrap_or_default();
    if path.rsplit('/').next() != Some(endpoint) {
        let message = format!("this graph serves `{endpoint}`, not `{}`", shown(path));
        return Err(Error::not_found(message).with_code("unknown_endpoint"));
    }
    let body = json(payload)?;
    let ignored = table::check(body, endpoint)?;
    Ok((body.into(), ignored.into()))
}

/// The fields of a body.
pub(super) fn json(payload: &HttpRequestPayload) -> Result<&JsonBody> {
    payload.json.as_deref().ok_or_else(|| {
        Error::invalid("the body must be a JSON object, sent with `content-type: application/json`")
    })
}

/// The model as the request names it.
pub(super) fn model(body: Fields<'_>) -> Result<Arc<str>> {
    match body.str("model")? {
        None => Err(missing("model")),
        Some("") => Err(invalid("model", "must not be empty")),
        Some(model) => Ok(Arc::from(model)),
    }
}

/// An answer in one piece, behind the header that names the request's fields that nobody knows, if there are any.
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
