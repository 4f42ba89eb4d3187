//! Limits on the number of clients and on the time that they take: those of the listener, and those
//! that clients set themselves.

use std::{
    fs,
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, HeaderValue};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::errors::{Cause, Failure};

/// Limits on the connections of a listener and on the time that its clients take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at the same time; also requests at the same time, of which HTTP/2 can have many
    /// on one connection.
    pub connections: usize,
    /// From the first byte of a request's head to its last; also how long a new connection may be
    /// silent.
    pub header: Duration,
    /// Longest time that a connection may be without a request.
    pub idle: Duration,
    /// Longest time that a request's body may take, besides a second for each 64 KiB that came.
    pub body: Duration,
    /// Longest time that a client may leave its answer unread, besides a second for each 16 KiB
    /// that it read.
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
    /// Returns the limits of a listener for probes, scrapers and operators, which is apart so that it
    /// can be reached when the other is full.
    pub(crate) fn of_management(&self) -> Self {
        Self {
            connections: MANAGEMENT_CONNECTIONS,
            ..self.clone()
        }
    }

    /// Returns true if a connection or an answer has been there since then for long enough to give
    /// way to another: what has just come may be about to go on.
    pub(super) fn may_end(&self, since: Instant) -> bool {
        since.elapsed() > self.header / 10
    }
}

/// Returns for how long so many bytes count at a rate of bytes a second.
pub(super) fn time_earned(bytes: u64, rate: u64) -> Duration {
    Duration::from_millis(bytes / (rate / 1_000))
}

/// A body that comes at this rate is never cut, however long it is: half a megabit a second.
pub(super) const BODY_BYTES_A_SECOND: u64 = 64 << 10;

/// An answer that is read at this rate is never cut.
pub(super) const ANSWER_BYTES_A_SECOND: u64 = 16 << 10;

/// The longest head of a request in bytes, the same for HTTP/1 and HTTP/2: long tokens and trace
/// headers fit several times over.
pub(super) const HEAD_BYTES: usize = 64 << 10;

/// Connections of the management listener: probes and scrapers are few.
const MANAGEMENT_CONNECTIONS: usize = 64;

/// File descriptors that are kept for other things than connections: model and graph files, pipes
/// to children, connections that are being refused.
const OTHER_DESCRIPTORS: u64 = 96;

/// Returns as many of `wanted` connections as the descriptor limit of the process leaves, which is raised
/// where the system lets it be.
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
    // Few descriptors are shared: half for connections.
    let left = granted.saturating_sub(others).max(granted / 2);
    (left as usize).min(wanted).max(1)
}

/// Returns how long an answer may take until it is worthless, as far as the headers say so. The time
/// begins with the first byte of the head.
pub(crate) fn time_allowed(headers: &HeaderMap) -> Result<Option<Duration>, Failure> {
    let time_of = |name: &'static str, read: fn(&str) -> Option<Duration>, why: &str| {
        let read = |value: &HeaderValue| {
            let time = value.to_str().ok().and_then(read);
            time.ok_or_else(|| {
                Failure::new(Cause::BadRequest, format!("`{name}` is {why}")).of_field(name)
            })
        };
        headers.get(name).map(read).transpose()
    };
    let ours = time_of(
        "x-request-timeout-ms",
        millis,
        "not a positive whole number of milliseconds",
    )?;
    let of_grpc = time_of(
        "grpc-timeout",
        grpc_time,
        "no number of at most eight digits with a unit",
    )?;
    Ok(ours.into_iter().chain(of_grpc).min())
}

fn millis(text: &str) -> Option<Duration> {
    let millis = text.trim().parse().ok();
    millis
        .filter(|millis| *millis > 0)
        .map(Duration::from_millis)
}

/// Reads a time as gRPC writes it, such as `500m`.
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
