//! When a request's answer becomes worthless, as its header and its body say. The time begins with the first byte of its head.

use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use graphmill_calculators::payload::JsonBody;
use serde_json::Value;

use crate::rescue::{Cause, Failure};

/// Says after how many milliseconds.
const HEADER: &str = "x-request-timeout-ms";

/// What the header says.
pub(crate) fn of_head(headers: &HeaderMap) -> Result<Option<Duration>, Failure> {
    let Some(value) = headers.get(HEADER) else {
        return Ok(None);
    };
    let text = value.to_str().ok();
    let millis = text.and_then(|text| text.trim().parse().ok());
    let millis = millis.filter(|millis| *millis > 0).ok_or_else(|| {
        let message = format!("`{HEADER}` is not a positive whole number of milliseconds");
        Failure::new(Cause::BadRequest, message)
            .of_field(HEADER)
            .with_code("invalid_value")
    })?;
    Ok(Some(Duration::from_millis(millis)))
}

/// The earlier of the deadlines that the header and the body's `timeout`, in seconds, set. A `timeout` that is no positive number
/// is for the graph to refuse.
pub(super) fn of(
    headers: &HeaderMap,
    body: &JsonBody,
    arrived: Instant,
) -> Result<Option<Instant>, Failure> {
    let by_header = of_head(headers)?;
    let seconds = body.short("timeout").and_then(Value::as_f64);
    let by_body = seconds
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let shorter = by_header.into_iter().chain(by_body).min();
    // One that is too far off to be represented never comes.
    Ok(shorter.and_then(|duration| arrived.checked_add(duration)))
}
