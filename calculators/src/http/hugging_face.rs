//! Errors as the servers of Hugging Face tell them.

use serde_json::{Value, json};

use super::dialect::Failure;

/// The name of their form in `/openapi.json`.
pub const FORM: &str = "HuggingFaceError";

/// Statuses of failures, their statuses there, and their kinds.
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

/// The status of a failure that has another one in other dialects.
pub(super) fn status(status: u16) -> u16 {
    let known = KINDS.iter().find(|(other, ..)| *other == status);
    known.map_or(status, |(_, status, _)| *status)
}

/// `{"error": <message>, "error_type": <kind>}`.
pub fn error(failure: &Failure<'_>) -> Value {
    let known = KINDS.iter().find(|(status, ..)| *status == failure.status);
    let kind = known.map_or(failure.kind, |(.., kind)| kind);
    json!({ "error": failure.message, "error_type": kind })
}
