//! The schedule of batches: which requests are computed together, and when. It is plain data and
//! the time, without threads.
//!
//! Requests wait by priority level, in the order in which they came. A batch begins with the first
//! of them and adds the later ones of the same kind that still fit. It is computed when it has a
//! preferred size, when it is full, or when its oldest request has waited long enough.

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

use super::options::{Batching, BatchingLevel, TimeoutAction};

/// A waiting request of a kind `K`, with inputs `T`.
#[derive(Debug)]
pub(super) struct QueuedRequest<K, T> {
    pub(super) number: u64,
    /// Kind of the request. Only requests of one kind are computed together.
    pub(super) kind: K,
    pub(super) rows: usize,
    pub(super) arrived: Instant,
    /// Time at which the request is given up, if there is one.
    pub(super) deadline: Option<Instant>,
    pub(super) inputs: T,
}

/// The waiting requests of all priority levels.
#[derive(Debug)]
pub(super) struct Queue<K, T> {
    batching: Batching,
    levels: Vec<Level<K, T>>,
}

/// The requests of one priority level.
#[derive(Debug)]
struct Level<K, T> {
    waiting: VecDeque<QueuedRequest<K, T>>,
    /// Requests that have waited too long and are computed after all others of the level.
    late: VecDeque<QueuedRequest<K, T>>,
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
pub(super) enum QueuePosition {
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
    /// Creates a queue without requests. The preferred sizes of batches are ascending.
    pub(super) fn new(batching: Batching) -> Self {
        let level = |_: &BatchingLevel| Level {
            waiting: VecDeque::new(),
            late: VecDeque::new(),
        };
        Self {
            levels: batching.levels.iter().map(level).collect(),
            batching,
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
    pub(super) fn enter(&mut self, level: usize, waiting: QueuedRequest<K, T>) -> Result<(), Full> {
        let length = self.levels[level].len();
        if length >= self.batching.levels[level].max_queue_size as usize {
            return Err(Full(length));
        }
        self.levels[level].waiting.push_back(waiting);
        Ok(())
    }

    /// Removes a request, if it still waits.
    pub(super) fn remove(&mut self, number: u64) -> Option<QueuedRequest<K, T>> {
        let mut queues = self
            .levels
            .iter_mut()
            .flat_map(|level| [&mut level.waiting, &mut level.late]);
        queues.find_map(|queue| {
            let at = queue.iter().position(|waiting| waiting.number == number)?;
            queue.remove(at)
        })
    }

    /// Removes all requests from all levels.
    pub(super) fn drain(&mut self) -> Vec<QueuedRequest<K, T>> {
        let levels = self.levels.iter_mut();
        let all = levels.flat_map(|level| level.waiting.drain(..).chain(level.late.drain(..)));
        all.collect()
    }

    /// Removes the requests that have waited too long. With `DELAY` they are moved behind the
    /// others instead.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<(QueuedRequest<K, T>, Expiry)> {
        let mut expired = Vec::new();
        for (level, rules) in self.levels.iter_mut().zip(&self.batching.levels) {
            if level.due(rules).is_none_or(|due| due > now) {
                continue;
            }
            let over = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
            for waiting in mem::take(&mut level.waiting) {
                let timed_out = over(rules.timeout().map(|timeout| waiting.arrived + timeout));
                match rules.timeout_action {
                    _ if over(waiting.deadline) => expired.push((waiting, Expiry::Deadline)),
                    TimeoutAction::Reject if timed_out => {
                        expired.push((waiting, Expiry::Timeout));
                    }
                    TimeoutAction::Delay if timed_out => level.late.push_back(waiting),
                    _ => level.waiting.push_back(waiting),
                }
            }
            for waiting in mem::take(&mut level.late) {
                if over(waiting.deadline) {
                    expired.push((waiting, Expiry::Deadline));
                } else {
                    level.late.push_back(waiting);
                }
            }
        }
        expired
    }

    /// Returns the next time at which [`expire`](Self::expire) has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        let levels = self.levels.iter().zip(&self.batching.levels);
        levels.filter_map(|(level, rules)| level.due(rules)).min()
    }

    /// Returns the position of a request; `None` if it does not wait.
    pub(super) fn place(&self, number: u64) -> Option<QueuePosition> {
        let ahead = self.order().position(|other| other.number == number)?;
        let batch = self.batch()?;
        if !batch.members.contains(&number) {
            return Some(QueuePosition::Later { ahead });
        }
        let members = self
            .order()
            .filter(|other| batch.members.contains(&other.number));
        let rows = members.map(|member| member.rows).sum();
        Some(QueuePosition::Next { rows })
    }

    /// Removes and returns the batch to compute now, or returns how long to wait for one.
    pub(super) fn next(&mut self, now: Instant) -> Next<QueuedRequest<K, T>> {
        let Some(batch) = self.batch() else {
            return Next::Wait(None);
        };
        if batch.ready || batch.due <= now {
            let members = batch.members.iter();
            return Next::Run(members.filter_map(|number| self.remove(*number)).collect());
        }
        Next::Wait(Some(batch.due))
    }

    /// Returns the batch that begins with the first request; `None` if there is no request.
    fn batch(&self) -> Option<BatchPlan> {
        let mut order = self.order();
        let first = order.next()?;
        let max_rows = self.batching.max_batch_size as usize;
        let delay = Duration::from_micros(self.batching.max_queue_delay_microseconds);
        let mut batch = BatchPlan {
            members: vec![first.number],
            ready: first.rows >= max_rows,
            due: first.arrived + delay,
        };
        let mut rows = first.rows;
        let sizes = &self.batching.preferred_batch_size;
        let is_preferred = |rows: usize| sizes.binary_search(&(rows as u32)).is_ok();
        // Number of members of the largest batch with a preferred size.
        let mut preferred = is_preferred(rows).then_some(1);
        for other in order.filter(|other| other.kind == first.kind) {
            if rows + other.rows > max_rows {
                batch.ready = true;
                break;
            }
            rows += other.rows;
            batch.members.push(other.number);
            batch.due = batch.due.min(other.arrived + delay);
            batch.ready |= rows >= max_rows;
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
    fn order(&self) -> impl Iterator<Item = &QueuedRequest<K, T>> {
        let levels = self.levels.iter();
        levels.flat_map(|level| level.waiting.iter().chain(&level.late))
    }
}

/// A batch that could be computed.
struct BatchPlan {
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

    fn due(&self, rules: &BatchingLevel) -> Option<Instant> {
        let all = self.waiting.iter().chain(&self.late);
        let deadlines = all.filter_map(|waiting| waiting.deadline);
        // All may wait equally long, so the first one that came is the first to expire.
        let first = self.waiting.front().map(|first| first.arrived);
        let timeout = first.zip(rules.timeout()).map(|(first, wait)| first + wait);
        deadlines.chain(timeout).min()
    }
}

#[cfg(test)]
mod tests;
