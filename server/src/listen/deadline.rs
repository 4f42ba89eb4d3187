//! The deadline that a request's header sets: when its answer becomes worthless. The time begins
//! with the first byte of the head.

use std::time::Duration;

use axum::http::HeaderMap;

use crate::rescue::{Cause, Failure};

/// Says after how many milliseconds.
const HEADER: &str = "x-request-timeout-ms";

/// How long the answer may take, if the header says so.
pub(crate) fn time_allowed(headers: &HeaderMap) -> Result<Option<Duration>, Failure> {
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
