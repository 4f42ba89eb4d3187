//! Limits on clients and their time: the limits of the listener, and deadlines that clients set
//! themselves.

use std::{
    fs,
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, HeaderValue};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::errors::{Cause, Failure};

/// The limits on the connections of a listener, and on the time of its clients.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of connections; also the maximum number of requests, of which an HTTP/2
    /// connection can have many.
    pub connections: usize,
    /// Maximum time from the first byte of a request's head to its last; also the maximum silence
    /// of a new connection.
    pub header: Duration,
    /// Maximum time of a connection without a request.
    pub idle: Duration,
    /// Maximum time for a request's body, plus a second for each 64 KiB received.
    pub body: Duration,
    /// Maximum time that a client may leave its answer unread, plus a second for each 16 KiB read.
    pub write: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1_024,
            header: Duration::from_secs(10),
            idle: Duration::from_mins(1),
            body: Duration::from_secs(30),
            write: Duration::from_mins(1),
        }
    }
}

impl Limits {
    /// Returns the limits of a separate listener for probes, scrapers and operators, which stays
    /// reachable when the other one is full.
    pub(crate) fn for_management(&self) -> Self {
        Self {
            connections: MANAGEMENT_CONNECTIONS,
            ..self.clone()
        }
    }

    /// Returns true if a connection or an answer may be ended for another one. One that has just
    /// started may not, as it may be about to continue.
    pub(super) fn may_end(&self, since: Instant) -> bool {
        since.elapsed() > self.header / 10
    }
}

/// Returns the time in which this number of bytes is sent at a rate of bytes per second.
pub(super) fn time_earned(bytes: u64, rate: u64) -> Duration {
    Duration::from_millis(bytes / (rate / 1_000))
}

/// Rate of a body that is never too slow, whatever its length: half a megabit per second.
pub(super) const BODY_BYTES_A_SECOND: u64 = 64 << 10;

/// Rate of reading that is never too slow.
pub(super) const ANSWER_BYTES_A_SECOND: u64 = 16 << 10;

/// Maximum length of a request's head in bytes, for HTTP/1 and HTTP/2, several times the size of
/// long tokens and trace headers.
pub(super) const HEAD_BYTES: usize = 64 << 10;

/// Maximum number of connections of the management listener, as there are few probes and scrapers.
const MANAGEMENT_CONNECTIONS: usize = 64;

/// Number of file descriptors reserved for other purposes: model and graph files, pipes to child
/// processes, connections being refused.
const OTHER_DESCRIPTORS: u64 = 96;

/// Returns the number of connections, up to `wanted`, that the limit of file descriptors allows.
/// Raises that limit if the system permits it.
pub(crate) fn affordable(wanted: usize) -> usize {
    let open = fs::read_dir("/proc/self/fd").map_or(32, |open| open.count() as u64);
    let others = open + OTHER_DESCRIPTORS + MANAGEMENT_CONNECTIONS as u64;
    let needed = others + wanted as u64;
    let limit = getrlimit(Resource::Nofile);
    let Some(current) = limit.current.filter(|current| *current < needed) else {
        return wanted;
    };
    let raised = limit.maximum.map_or(needed, |most| most.min(needed));
    let new = Rlimit {
        current: Some(raised),
        ..limit
    };
    let granted = setrlimit(Resource::Nofile, new).map_or(current, |()| raised);
    // If there are few descriptors, half of them are for connections.
    let left = granted.saturating_sub(others).max(granted / 2);
    (left as usize).min(wanted).max(1)
}

/// Returns the time limit of the answer in the headers; `None` if there is none. The time starts
/// with the first byte of the head.
pub(crate) fn time_allowed(headers: &HeaderMap) -> Result<Option<Duration>, Failure> {
    let time_of = |name: &'static str, read: fn(&str) -> Option<Duration>, why: &str| {
        let read = |value: &HeaderValue| {
            let time = value.to_str().ok().and_then(read);
            time.ok_or_else(|| {
                Failure::new(Cause::BadRequest, format!("`{name}` is {why}")).with_field(name)
            })
        };
        headers.get(name).map(read).transpose()
    };
    let why = "not a positive whole number of milliseconds";
    let ours = time_of("x-request-timeout-ms", millis, why)?;
    let why = "not a number of at most eight digits with a unit";
    let of_grpc = time_of("grpc-timeout", grpc_time, why)?;
    Ok(ours.into_iter().chain(of_grpc).min())
}

fn millis(text: &str) -> Option<Duration> {
    let millis: Option<u64> = text.trim().parse().ok();
    millis.filter(|it| *it > 0).map(Duration::from_millis)
}

/// Parses a time in gRPC's format, such as `500m`.
fn grpc_time(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let unit = match unit {
        "H" => Duration::from_hours(1),
        "M" => Duration::from_mins(1),
        "S" => Duration::from_secs(1),
        "m" => Duration::from_millis(1),
        "u" => Duration::from_micros(1),
        "n" => Duration::from_nanos(1),
        _ => return None,
    };
    Some(unit * digits.parse().ok()?)
}
