//! Executors by name, and their lanes: the graphs that share an executor are served round-robin,
//! and waiting jobs are counted and bounded.
//!
//! An executor runs jobs in order of arrival. Without lanes, a busy graph would delay the jobs of
//! all others.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    error::{Error, Result},
    executor::{Executor, Job, ThreadPool},
};

/// Most jobs of a graph that wait for an executor when another session wants to begin there. Each
/// holds a request in memory, and at 10 ms a job, two threads need 5 s for so many. Sessions that
/// have begun go on whatever waits: they have one job in each node at most.
const MAX_WAITING: usize = 1024;

/// An executor that graphs share.
pub(crate) struct Junction {
    executor: Arc<dyn Executor>,
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    /// By lane, each with its number.
    jobs: HashMap<u64, VecDeque<(u64, Job)>>,
    /// The lanes that have jobs, each once: the first is next.
    turns: VecDeque<u64>,
    next_lane: u64,
    next_job: u64,
}

/// What one graph has of an executor.
pub(crate) struct Lane {
    name: String,
    number: u64,
    junction: Arc<Junction>,
    refused: AtomicU64,
}

impl Junction {
    pub(crate) fn new(executor: Arc<dyn Executor>) -> Arc<Self> {
        Arc::new(Self {
            executor,
            queues: Mutex::default(),
        })
    }

    pub(crate) fn executor(&self) -> &Arc<dyn Executor> {
        &self.executor
    }

    /// One more lane; `name` is the executor's.
    pub(crate) fn lane(self: &Arc<Self>, name: &str) -> Lane {
        let mut queues = self.lock();
        let number = queues.next_lane;
        queues.next_lane += 1;
        queues.jobs.insert(number, VecDeque::new());
        Lane {
            name: name.to_owned(),
            number,
            junction: Arc::clone(self),
            refused: AtomicU64::new(0),
        }
    }

    /// Runs a job of the lane whose turn it is; if that is the one of this job, then this job.
    /// Called once for each job.
    fn run_next(&self, number: u64) {
        let next = {
            let mut queues = self.lock();
            let Queues { jobs, turns, .. } = &mut *queues;
            turns.pop_front().and_then(|lane| {
                let waiting = jobs.get_mut(&lane)?;
                let own = waiting.iter().position(|(other, _)| *other == number);
                let (_, job) = waiting.remove(own.unwrap_or(0))?;
                if !waiting.is_empty() {
                    turns.push_back(lane);
                }
                Some(job)
            })
        };
        if let Some(job) = next {
            job();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    /// Runs the job, some time. Returns its number.
    pub(crate) fn spawn(&self, job: Job) -> u64 {
        let number = {
            let mut queues = self.junction.lock();
            let number = queues.next_job;
            queues.next_job += 1;
            let Queues { jobs, turns, .. } = &mut *queues;
            let waiting = jobs.entry(self.number).or_default();
            if waiting.is_empty() {
                turns.push_back(self.number);
            }
            waiting.push_back((number, job));
            number
        };
        let junction = Arc::clone(&self.junction);
        self.junction
            .executor
            .spawn(Box::new(move || junction.run_next(number)));
        number
    }

    /// How many jobs of the lane are before the job of this number; none if it has begun.
    pub(crate) fn before(&self, number: u64) -> Option<usize> {
        let queues = self.junction.lock();
        let mut waiting = queues.jobs.get(&self.number)?.iter();
        waiting.position(|(other, _)| *other == number)
    }

    /// Makes sure that the executor has threads.
    ///
    /// # Errors
    /// If the system gives none.
    pub(crate) fn start(&self) -> Result<()> {
        self.junction.executor.start()
    }

    /// Lets a session begin here, before it has a job.
    ///
    /// # Errors
    /// [`Kind::ResourceExhausted`](crate::Kind::ResourceExhausted) if as many jobs wait as may.
    pub(crate) fn admit(&self) -> Result<()> {
        if self.waiting() < MAX_WAITING {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(Error::exhausted(format!(
            "{MAX_WAITING} jobs of this graph wait for the executor `{}`, as many as may",
            self.name
        )))
    }

    /// How many jobs wait.
    pub(crate) fn waiting(&self) -> usize {
        let queues = self.junction.lock();
        queues.jobs.get(&self.number).map_or(0, VecDeque::len)
    }

    /// How many sessions were not let in.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Its jobs hold the plan that the lane is of, so none is left.
impl Drop for Lane {
    fn drop(&mut self) {
        self.junction.lock().jobs.remove(&self.number);
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("name", &self.name)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

/// The executors that exist without a declaration in the graph, made when first used.
#[derive(Default)]
pub struct Executors {
    named: Mutex<BTreeMap<String, Arc<Junction>>>,
}

impl Executors {
    /// The name of the executor for work that computes.
    pub const CPU: &'static str = "cpu";

    /// Only `cpu`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives an executor a name, `cpu` included.
    pub fn insert(&self, name: impl Into<String>, executor: Arc<dyn Executor>) {
        self.named().insert(name.into(), Junction::new(executor));
    }

    /// The executor of this name, if there is one.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Executor>> {
        Some(Arc::clone(self.junction(name)?.executor()))
    }

    /// A graph's own lane of the executor of this name.
    pub(crate) fn lane(&self, name: &str) -> Option<Lane> {
        Some(self.junction(name)?.lane(name))
    }

    fn junction(&self, name: &str) -> Option<Arc<Junction>> {
        let mut named = self.named();
        if let Some(junction) = named.get(name) {
            return Some(Arc::clone(junction));
        }
        if name != Self::CPU {
            return None;
        }
        let junction = Junction::new(Arc::new(ThreadPool::new(name, None)));
        named.insert(name.to_owned(), Arc::clone(&junction));
        Some(junction)
    }

    fn named(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Junction>>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ManualExecutor;

    #[test]
    fn graphs_that_share_an_executor_take_turns() {
        let executor = Arc::new(ManualExecutor::default());
        let junction = Junction::new(Arc::clone(&executor) as Arc<dyn Executor>);
        let (busy, calm) = (junction.lane("cpu"), junction.lane("cpu"));
        let order = Arc::new(Mutex::new(Vec::new()));
        let say = |what: &'static str| -> Job {
            let order = Arc::clone(&order);
            Box::new(move || order.lock().expect("no panic").push(what))
        };
        (0..1_000).for_each(|_| _ = busy.spawn(say("busy")));
        calm.spawn(say("first"));
        calm.spawn(say("second"));
        assert_eq!((busy.waiting(), calm.waiting()), (1_000, 2));
        (0..4).for_each(|_| assert!(executor.run_one()));
        assert_eq!(
            *order.lock().expect("no panic"),
            ["busy", "first", "busy", "second"]
        );
        while executor.run_one() {}
        assert_eq!(order.lock().expect("no panic").len(), 1_002);
        assert_eq!((busy.waiting(), calm.waiting()), (0, 0));
    }

    #[test]
    fn a_full_lane_lets_nobody_begin_and_others_do() {
        let junction = Junction::new(Arc::new(ManualExecutor::default()));
        let (busy, calm) = (junction.lane("cpu"), junction.lane("cpu"));
        for _ in 0..MAX_WAITING {
            busy.admit().expect("there is room");
            busy.spawn(Box::new(|| {}));
        }
        let refusal = busy.admit().expect_err("as many wait as may");
        assert_eq!(refusal.kind, crate::Kind::ResourceExhausted);
        assert_eq!((busy.refused(), calm.refused()), (1, 0));
        calm.admit().expect("its own lane is empty");
    }
}
