//! The deadline that a request's header sets: when its answer becomes worthless. The time begins
//! with the first byte of the head.

use std::time::Duration;

use axum::http::HeaderMap;

use crate::errors::{Cause, Failure};

/// Says after how many milliseconds.
const HEADER: &str = "x-request-timeout-ms";

/// The header of gRPC that says so, with a unit behind the number.
const GRPC_HEADER: &str = "grpc-timeout";

/// How long the answer may take, as far as the headers say so.
pub(crate) fn time_allowed(headers: &HeaderMap) -> Result<Option<Duration>, Failure> {
    let ours = time_of_header(headers)?;
    let of_grpc = match headers.get(GRPC_HEADER) {
        Some(value) => Some(grpc_time(value.as_bytes()).ok_or_else(|| {
            let message =
                format!("`{GRPC_HEADER}` is no number of at most eight digits with a unit");
            Failure::new(Cause::BadRequest, message).of_field(GRPC_HEADER)
        })?),
        None => None,
    };
    Ok(ours.into_iter().chain(of_grpc).min())
}

/// A time as gRPC writes it, such as `500m`.
fn grpc_time(text: &[u8]) -> Option<Duration> {
    let (unit, digits) = text.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    match unit {
        b'H' => Some(Duration::from_secs(number * 3_600)),
        b'M' => Some(Duration::from_secs(number * 60)),
        b'S' => Some(Duration::from_secs(number)),
        b'm' => Some(Duration::from_millis(number)),
        b'u' => Some(Duration::from_micros(number)),
        b'n' => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

fn time_of_header(headers: &HeaderMap) -> Result<Option<Duration>, Failure> {
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
