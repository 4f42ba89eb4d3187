//! Which requests are computed together, and when: plain data and the time, without threads.
//!
//! Requests wait by priority level, in the order in which they came. A batch begins with the first
//! of them and takes all others of the same kind behind it that still fit. It is computed when it
//! has a preferred size, when it is full, or when its oldest request has waited long enough.

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

use super::options::TimeoutAction;

/// What decides when a batch is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// Most rows of a batch.
    pub(super) max_rows: usize,
    /// Rows of a batch that is computed at once, ascending.
    pub(super) preferred: Vec<usize>,
    /// How long a request waits for others at most.
    pub(super) delay: Duration,
    /// The priority levels, the first of them first; at least one.
    pub(super) levels: Vec<LevelRules>,
}

/// What holds for the requests of one priority level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelRules {
    /// How long a request may wait.
    pub(super) timeout: Option<Duration>,
    /// What becomes of one that has waited longer.
    pub(super) on_timeout: TimeoutAction,
    /// Most requests that wait.
    pub(super) max_waiting: usize,
}

/// A request that waits, of a kind `K`.
#[derive(Debug)]
pub(super) struct Waiting<K, T> {
    pub(super) number: u64,
    /// Only requests of one kind are computed together.
    pub(super) kind: K,
    pub(super) rows: usize,
    pub(super) arrived: Instant,
    /// When its answer becomes worthless.
    pub(super) deadline: Option<Instant>,
    pub(super) what: T,
}

/// The requests that wait.
#[derive(Debug)]
pub(super) struct Queue<K, T> {
    rules: Rules,
    levels: Vec<Level<K, T>>,
}

/// The requests of one priority level.
#[derive(Debug)]
struct Level<K, T> {
    waiting: VecDeque<Waiting<K, T>>,
    /// Those whose time has passed and that are computed after all others of the level.
    late: VecDeque<Waiting<K, T>>,
}

/// What is to be done now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<T> {
    /// These requests are computed.
    Run(Vec<T>),
    /// Nothing, until this time or until a request comes.
    Wait(Option<Instant>),
}

/// Position of a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the batch that is computed next, which has so many rows by now.
    Next { rows: usize },
    /// In a later one: so many requests come before it.
    Later { ahead: usize },
}

/// Why a request waits no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expired {
    /// It has waited as long as its level allows.
    Timeout,
    /// Its deadline passed.
    Deadline,
}

/// So many requests of the level wait already, as many as may.
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

    /// Requests that wait.
    pub(super) fn len(&self) -> usize {
        self.levels.iter().map(Level::len).sum()
    }

    /// Adds a request to a level, counted from 0.
    ///
    /// # Errors
    /// That too many wait there.
    pub(super) fn enter(&mut self, level: usize, waiting: Waiting<K, T>) -> Result<(), Full> {
        let length = self.levels[level].len();
        if length >= self.rules.levels[level].max_waiting {
            return Err(Full(length));
        }
        self.levels[level].waiting.push_back(waiting);
        Ok(())
    }

    /// Takes a request out, if it waits.
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

    /// Takes all out.
    pub(super) fn drain(&mut self) -> Vec<T> {
        let levels = self.levels.iter_mut();
        let all = levels.flat_map(|level| level.waiting.drain(..).chain(level.late.drain(..)));
        all.map(|waiting| waiting.what).collect()
    }

    /// Takes out the requests that have waited too long, and sets those back that are only late.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<(T, Expired)> {
        let mut expired = Vec::new();
        for (level, rules) in self.levels.iter_mut().zip(&self.rules.levels) {
            if level.due(rules).is_none_or(|due| due > now) {
                continue;
            }
            let over = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
            for waiting in mem::take(&mut level.waiting) {
                let timed_out = over(rules.timeout.map(|timeout| waiting.arrived + timeout));
                match rules.on_timeout {
                    _ if over(waiting.deadline) => expired.push((waiting.what, Expired::Deadline)),
                    TimeoutAction::Reject if timed_out => {
                        expired.push((waiting.what, Expired::Timeout));
                    }
                    TimeoutAction::Delay if timed_out => level.late.push_back(waiting),
                    _ => level.waiting.push_back(waiting),
                }
            }
            for waiting in mem::take(&mut level.late) {
                if over(waiting.deadline) {
                    expired.push((waiting.what, Expired::Deadline));
                } else {
                    level.late.push_back(waiting);
                }
            }
        }
        expired
    }

    /// When [`expire`](Self::expire) has something to do, if nothing else happens.
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

    /// Takes out the batch that is to be computed now, or says how long to wait for one.
    pub(super) fn next(&mut self, now: Instant) -> Next<T> {
        let Some(batch) = self.batch() else {
            return Next::Wait(None);
        };
        if batch.ready || batch.due <= now {
            return Next::Run(self.take(&batch.members));
        }
        Next::Wait(Some(batch.due))
    }

    /// The batch that begins with the first request; none if there is no request.
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
        // Members of the largest batch of a preferred size.
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

    /// All requests, in the order in which they are to be computed.
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
    /// By number, in order.
    members: Vec<u64>,
    /// Whether nothing is gained by waiting.
    ready: bool,
    /// When it is computed whatever its size.
    due: Instant,
}

impl<K, T> Level<K, T> {
    fn len(&self) -> usize {
        self.waiting.len() + self.late.len()
    }

    fn due(&self, rules: &LevelRules) -> Option<Instant> {
        let all = self.waiting.iter().chain(&self.late);
        let deadlines = all.filter_map(|waiting| waiting.deadline);
        // All wait equally long, so the first that came is the first whose time passes.
        let first = self.waiting.front().map(|first| first.arrived);
        let timeout = first.zip(rules.timeout).map(|(first, wait)| first + wait);
        deadlines.chain(timeout).min()
    }
}

#[cfg(test)]
mod tests;
