//! How many clients there may be and how long they may take.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many connections a listener holds and how long clients may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at the same time; also requests at the same time, of which HTTP/2 can have many
    /// on one connection.
    pub connections: usize,
    /// From the first byte of a request's head to its last; also how long a new connection may be
    /// silent.
    pub header: Duration,
    /// How long a connection may be without a request.
    pub idle: Duration,
    /// How long a request's body may take, besides a second for each 64 KiB that came.
    pub body: Duration,
    /// How long a client may leave its answer unread, besides a second for each 16 KiB that it
    /// read.
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

/// As many of `wanted` connections as the descriptor limit of the process leaves, which is raised
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
        maximum: limit.maximum,
    };
    let granted = match setrlimit(Resource::Nofile, new) {
        Ok(()) => raised,
        Err(_) => current,
    };
    // Few descriptors are shared: half for connections.
    let left = granted.saturating_sub(others).max(granted / 2);
    (left as usize).min(wanted).max(1)
}
