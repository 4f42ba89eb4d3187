//! Errors in the form of Hugging Face's servers.

use serde_json::{Value, json};

use super::dialect::Failure;

/// Name of their schema in `/openapi.json`.
pub const FORM: &str = "HuggingFaceError";

/// Statuses of failures in other dialects and in these, and the kinds of the failures.
const KINDS: &[(u16, u16, &str)] = &[
    (400, 422, "validation"),
    (413, 413, "validation"),
    (415, 415, "validation"),
    (429, 429, "overloaded"),
    (500, 424, "generation"),
    (501, 501, "unsupported"),
    (503, 503, "unhealthy"),
    (504, 504, "generation"),
];

/// Converts the status of other dialects to the one of these servers.
pub(super) fn status(status: u16) -> u16 {
    let known = KINDS.iter().find(|(other, ..)| *other == status);
    known.map_or(status, |(_, status, _)| *status)
}

/// Writes `{"error": <message>, "error_type": <kind>}`.
pub fn error(failure: &Failure<'_>) -> Value {
    let known = KINDS.iter().find(|(status, ..)| *status == failure.status);
    let kind = known.map_or(failure.kind, |(.., kind)| kind);
    json!({ "error": failure.message, "error_type": kind })
}
