//! The schedule of batches: which requests are computed together, and when. It is plain data and
//! the time, without threads.
//!
//! Requests wait by priority level, in the order in which they came. A batch begins with the first
//! of them and adds the later ones of the same kind that still fit. It is computed when it has a
//! preferred size, when it is full, or when its oldest request has waited long enough.

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

use super::options::TimeoutAction;

/// Limits that decide when a batch is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// Maximum number of rows of a batch.
    pub(super) max_rows: usize,
    /// Numbers of rows at which a batch is computed at once, ascending.
    pub(super) preferred: Vec<usize>,
    /// Maximum time that a request waits for others.
    pub(super) delay: Duration,
    /// Rules of the priority levels, in order; at least one.
    pub(super) levels: Vec<LevelRules>,
}

/// Rules for the requests of one priority level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelRules {
    /// Maximum time that a request may wait; `None` is no limit.
    pub(super) timeout: Option<Duration>,
    /// Treatment of a request that has waited longer.
    pub(super) on_timeout: TimeoutAction,
    /// Maximum number of waiting requests in this level.
    pub(super) max_waiting: usize,
}

/// A waiting request of a kind `K`.
#[derive(Debug)]
pub(super) struct Waiting<K, T> {
    pub(super) number: u64,
    /// Kind of the request. Only requests of one kind are computed together.
    pub(super) kind: K,
    pub(super) rows: usize,
    pub(super) arrived: Instant,
    /// Time at which the request is given up, if there is one.
    pub(super) deadline: Option<Instant>,
    pub(super) what: T,
}

/// The waiting requests of all priority levels.
#[derive(Debug)]
pub(super) struct Queue<K, T> {
    rules: Rules,
    levels: Vec<Level<K, T>>,
}

/// The requests of one priority level.
#[derive(Debug)]
struct Level<K, T> {
    waiting: VecDeque<Waiting<K, T>>,
    /// Requests that have waited too long and are computed after all others of the level.
    late: VecDeque<Waiting<K, T>>,
}

/// The next action of a thread that computes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<T> {
    /// Compute these requests as one batch.
    Run(Vec<T>),
    /// Wait until this time, or until a request comes.
    Wait(Option<Instant>),
}

/// Position of a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the batch that is computed next, which has this many rows so far.
    Next { rows: usize },
    /// In a later batch, behind this many requests.
    Later { ahead: usize },
}

/// The reason why a request no longer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// It has waited as long as its level allows.
    Timeout,
    /// The deadline of the request passed.
    Deadline,
}

/// The error of a full level, with the number of its waiting requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full(pub(super) usize);

impl<K: PartialEq, T> Queue<K, T> {
    pub(super) fn new(rules: Rules) -> Self {
        let level = |_: &LevelRules| Level {
            waiting: VecDeque::new(),
            late: VecDeque::new(),
        };
        Self {
            levels: rules.levels.iter().map(level).collect(),
            rules,
        }
    }

    /// Returns the number of waiting requests.
    pub(super) fn len(&self) -> usize {
        self.levels.iter().map(Level::len).sum()
    }

    /// Adds a request to a level, counted from 0.
    ///
    /// # Errors
    /// Too many requests wait in this level.
    pub(super) fn enter(&mut self, level: usize, waiting: Waiting<K, T>) -> Result<(), Full> {
        let length = self.levels[level].len();
        if length >= self.rules.levels[level].max_waiting {
            return Err(Full(length));
        }
        self.levels[level].waiting.push_back(waiting);
        Ok(())
    }

    /// Removes a request, if it still waits.
    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let mut queues = self
            .levels
            .iter_mut()
            .flat_map(|level| [&mut level.waiting, &mut level.late]);
        queues.find_map(|queue| {
            let at = queue.iter().position(|waiting| waiting.number == number)?;
            queue.remove(at).map(|waiting| waiting.what)
        })
    }

    /// Removes all requests from all levels.
    pub(super) fn drain(&mut self) -> Vec<T> {
        let levels = self.levels.iter_mut();
        let all = levels.flat_map(|level| level.waiting.drain(..).chain(level.late.drain(..)));
        all.map(|waiting| waiting.what).collect()
    }

    /// Removes the requests that have waited too long. With `DELAY` they are moved behind the
    /// others instead.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<(T, Expiry)> {
        let mut expired = Vec::new();
        for (level, rules) in self.levels.iter_mut().zip(&self.rules.levels) {
            if level.due(rules).is_none_or(|due| due > now) {
                continue;
            }
            let over = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
            for waiting in mem::take(&mut level.waiting) {
                let timed_out = over(rules.timeout.map(|timeout| waiting.arrived + timeout));
                match rules.on_timeout {
                    _ if over(waiting.deadline) => expired.push((waiting.what, Expiry::Deadline)),
                    TimeoutAction::Reject if timed_out => {
                        expired.push((waiting.what, Expiry::Timeout));
                    }
                    TimeoutAction::Delay if timed_out => level.late.push_back(waiting),
                    _ => level.waiting.push_back(waiting),
                }
            }
            for waiting in mem::take(&mut level.late) {
                if over(waiting.deadline) {
                    expired.push((waiting.what, Expiry::Deadline));
                } else {
                    level.late.push_back(waiting);
                }
            }
        }
        expired
    }

    /// Returns the next time at which [`expire`](Self::expire) has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        let levels = self.levels.iter().zip(&self.rules.levels);
        levels.filter_map(|(level, rules)| level.due(rules)).min()
    }

    /// Returns the position of a request; `None` if it does not wait.
    pub(super) fn place(&self, number: u64) -> Option<Place> {
        let ahead = self.order().position(|other| other.number == number)?;
        let batch = self.batch()?;
        if !batch.members.contains(&number) {
            return Some(Place::Later { ahead });
        }
        let members = self
            .order()
            .filter(|other| batch.members.contains(&other.number));
        let rows = members.map(|member| member.rows).sum();
        Some(Place::Next { rows })
    }

    /// Removes and returns the batch to compute now, or returns how long to wait for one.
    pub(super) fn next(&mut self, now: Instant) -> Next<T> {
        let Some(batch) = self.batch() else {
            return Next::Wait(None);
        };
        if batch.ready || batch.due <= now {
            return Next::Run(self.take(&batch.members));
        }
        Next::Wait(Some(batch.due))
    }

    /// Returns the batch that begins with the first request; `None` if there is no request.
    fn batch(&self) -> Option<Batch> {
        let mut order = self.order();
        let (number, first) = order.next().map(|first| (first.number, first))?;
        let mut batch = Batch {
            members: vec![number],
            ready: first.rows >= self.rules.max_rows,
            due: first.arrived + self.rules.delay,
        };
        let mut rows = first.rows;
        let is_preferred = |rows: usize| self.rules.preferred.binary_search(&rows).is_ok();
        // Number of members of the largest batch with a preferred size.
        let mut preferred = is_preferred(rows).then_some(1);
        for other in order.filter(|other| other.kind == first.kind) {
            if rows + other.rows > self.rules.max_rows {
                batch.ready = true;
                break;
            }
            rows += other.rows;
            batch.members.push(other.number);
            batch.due = batch.due.min(other.arrived + self.rules.delay);
            batch.ready |= rows >= self.rules.max_rows;
            if is_preferred(rows) {
                preferred = Some(batch.members.len());
            }
        }
        if let Some(members) = preferred {
            batch.members.truncate(members);
            batch.ready = true;
        }
        Some(batch)
    }

    /// Iterates over all requests in the order in which they are computed.
    fn order(&self) -> impl Iterator<Item = &Waiting<K, T>> {
        let levels = self.levels.iter();
        levels.flat_map(|level| level.waiting.iter().chain(&level.late))
    }

    fn take(&mut self, members: &[u64]) -> Vec<T> {
        members
            .iter()
            .filter_map(|number| self.remove(*number))
            .collect()
    }
}

/// A batch that could be computed.
struct Batch {
    /// Numbers of the requests, in order.
    members: Vec<u64>,
    /// True if waiting for more requests gains nothing.
    ready: bool,
    /// Time at which it is computed at any size.
    due: Instant,
}

impl<K, T> Level<K, T> {
    fn len(&self) -> usize {
        self.waiting.len() + self.late.len()
    }

    fn due(&self, rules: &LevelRules) -> Option<Instant> {
        let all = self.waiting.iter().chain(&self.late);
        let deadlines = all.filter_map(|waiting| waiting.deadline);
        // All may wait equally long, so the first one that came is the first to expire.
        let first = self.waiting.front().map(|first| first.arrived);
        let timeout = first.zip(rules.timeout).map(|(first, wait)| first + wait);
        deadlines.chain(timeout).min()
    }
}

#[cfg(test)]
mod tests;
